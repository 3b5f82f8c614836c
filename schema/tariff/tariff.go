// Package tariff holds the prices that accounts pay instead of the published ones. Store writes and reads them; the
// price book of an account is made of them by package price, in ingest, when they change.
package tariff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/price"
)

// Prefix is that of an override's id.
const Prefix schema.Prefix = "ovr"

// ErrNotFound is returned for an id that names no override of the account.
var ErrNotFound = errors.New("there is no such price override")

// ErrExists is returned for an override whose match, provider and start are taken.
var ErrExists = errors.New("there is an override for this match, provider and start already")

// Override is a price of an account.
type Override struct {
	ID        schema.ID
	AccountID schema.ID
	price.Override
	CreatedAt time.Time
	// CreatedBy is the user who made it, nil for the command line.
	CreatedBy *schema.ID
}

// Check lists what is wrong with an override that a client asks for.
func (o Override) Check() schema.Faults {
	var faults schema.Faults
	if strings.TrimSpace(o.Match) == "" {
		faults.Add("match", "is required: a model name, or a pattern in which * stands for any text")
	}
	faults.CheckName("match", o.Match, schema.MaxNameLength)
	faults.CheckName("provider", o.Provider, schema.MaxNameLength)
	if o.Rates.Input == nil {
		faults.Add("input_usd_per_mtok", "is required")
	}
	if o.Rates.Output == nil {
		faults.Add("output_usd_per_mtok", "is required")
	}
	return faults
}

// Store reads and writes overrides.
type Store struct{ db pgdb.DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db} }

const insertOverride = `
INSERT INTO price_overrides (override_id, account_id, match, provider, from_time, input_pico_usd, output_pico_usd,
  cache_read_pico_usd, cache_write_pico_usd, cache_write_1h_pico_usd, reasoning_pico_usd, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT ON CONSTRAINT price_overrides_once DO NOTHING`

// Add keeps an override, which was checked. Ingest obeys it within a second; what was priced before stays as it is. It
// returns ErrExists.
func (s *Store) Add(ctx context.Context, o Override) error {
	var from *time.Time
	if !o.From.IsZero() {
		from = &o.From
	}
	r := o.Rates
	return pgdb.Change(ctx, s.db, "add price override", ErrExists, insertOverride, o.ID, o.AccountID, o.Match, o.Provider, from, r.Input, r.Output,
		r.CacheRead, r.CacheWrite, r.CacheWrite1h, r.Reasoning, o.CreatedAt, o.CreatedBy)
}

const deleteOverride = `DELETE FROM price_overrides WHERE account_id = $1 AND override_id = $2`

// Delete removes an override. It returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, accountID, id schema.ID) error {
	return pgdb.Change(ctx, s.db, "remove price override", ErrNotFound, deleteOverride, accountID, id)
}

const selectOverrides = `
SELECT override_id, account_id, match, provider, from_time, input_pico_usd, output_pico_usd,
  cache_read_pico_usd, cache_write_pico_usd, cache_write_1h_pico_usd, reasoning_pico_usd, created_at, created_by
FROM price_overrides
WHERE $1::uuid IS NULL OR account_id = $1
ORDER BY account_id, match, provider, from_time NULLS FIRST`

// OfAccount lists the overrides of an account by match, provider and start.
func (s *Store) OfAccount(ctx context.Context, accountID schema.ID) ([]Override, error) {
	return s.list(ctx, selectOverrides, &accountID)
}

const pinOverrides = `
INSERT INTO reprice_overrides (job_id, override_id, account_id, match, provider, from_time, input_pico_usd, output_pico_usd,
  cache_read_pico_usd, cache_write_pico_usd, cache_write_1h_pico_usd, reasoning_pico_usd, created_at, created_by)
SELECT $2, override_id, account_id, match, provider, from_time, input_pico_usd, output_pico_usd,
  cache_read_pico_usd, cache_write_pico_usd, cache_write_1h_pico_usd, reasoning_pico_usd, created_at, created_by
FROM price_overrides WHERE account_id = $1`

// Pin keeps the overrides of an account as they are now, for a job.
func (s *Store) Pin(ctx context.Context, accountID, jobID schema.ID) error {
	return pgdb.Exec(ctx, s.db, "pin price overrides", pinOverrides, accountID, jobID)
}

const selectPinned = `
SELECT override_id, account_id, match, provider, from_time, input_pico_usd, output_pico_usd,
  cache_read_pico_usd, cache_write_pico_usd, cache_write_1h_pico_usd, reasoning_pico_usd, created_at, created_by
FROM reprice_overrides
WHERE account_id = $1 AND job_id = $2
ORDER BY match, provider, from_time NULLS FIRST`

// Pinned lists the overrides that were pinned for a job, in the order of OfAccount.
func (s *Store) Pinned(ctx context.Context, accountID, jobID schema.ID) ([]Override, error) {
	return s.list(ctx, selectPinned, accountID, jobID)
}

// All lists every override, for ingest.
func (s *Store) All(ctx context.Context) ([]Override, error) {
	return s.list(ctx, selectOverrides, nil)
}

func (s *Store) list(ctx context.Context, statement string, args ...any) ([]Override, error) {
	rows, _ := s.db.Query(ctx, statement, args...)
	list, err := pgx.CollectRows(rows, scanOverride)
	if err != nil {
		return nil, fmt.Errorf("list price overrides: %w", err)
	}
	return list, nil
}

func scanOverride(row pgx.CollectableRow) (o Override, err error) {
	var from *time.Time
	r := &o.Rates
	err = row.Scan(&o.ID, &o.AccountID, &o.Match, &o.Provider, &from, &r.Input, &r.Output,
		&r.CacheRead, &r.CacheWrite, &r.CacheWrite1h, &r.Reasoning, &o.CreatedAt, &o.CreatedBy)
	if from != nil {
		o.From = *from
	}
	return o, err
}
