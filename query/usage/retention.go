package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema"
)

// ErrRetention is returned for a retention that would erase sums or cannot be kept.
var ErrRetention = errors.New("such a retention cannot be kept")

// Retention is how long an account keeps single events.
type Retention struct {
	// Days is the account's own setting, nil for that of the installation.
	Days *int
	// InstallationDays is how long the installation keeps events, nil for ever.
	InstallationDays *int
	// MinimumDays is the least that an account may set.
	MinimumDays int
	// DeletedBefore is the time before which events are gone; zero: none are.
	DeletedBefore Time
	// SumsKept says that sums outlive their events.
	SumsKept  bool
	UpdatedAt Time
	UpdatedBy *schema.ID
}

const selectRetention = `
SELECT r.retention_days AS days, floor(extract(epoch FROM s.raw_retention) / 86400)::int AS installation_days,
	46 AS minimum_days,
	CASE WHEN g.before > '-infinity' THEN g.before END AS deleted_before,
	true AS sums_kept, r.updated_at, r.updated_by
FROM schema_settings s LEFT JOIN account_retention r ON r.account_id = $1
	CROSS JOIN LATERAL (SELECT greatest(s.raw_dropped_before, now() - s.raw_retention, r.deleted_before) AS before) AS g`

// Retention returns how long an account keeps single events.
func (s *Store) Retention(ctx context.Context, accountID schema.ID) (Retention, error) {
	return ReadRetention(ctx, s.Once(accountID), accountID)
}

// ReadRetention is Retention inside a transaction.
func ReadRetention(ctx context.Context, db querier, accountID schema.ID) (Retention, error) {
	rows, _ := db.Query(ctx, selectRetention, accountID)
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Retention])
	if err != nil {
		return Retention{}, fmt.Errorf("read the retention: %w", err)
	}
	return r, nil
}

// querier is a transaction, or Once.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const upsertRetention = `
INSERT INTO account_retention (account_id, retention_days, updated_at, updated_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (account_id) DO UPDATE SET retention_days = excluded.retention_days, updated_at = excluded.updated_at,
	updated_by = excluded.updated_by`

// stateRetention is the SQLSTATE of a retention that the database refuses.
const stateRetention = "OL004"

// SetRetention sets how many days an account keeps single events, or with nil that it
// keeps them as long as the installation. It returns ErrRetention for days that are too
// few or too many.
func SetRetention(ctx context.Context, tx pgx.Tx, accountID schema.ID, days *int, at time.Time, by schema.ID) error {
	_, err := tx.Exec(ctx, upsertRetention, accountID, days, at, by)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == stateRetention {
		return ErrRetention
	}
	if err != nil {
		return fmt.Errorf("set the retention: %w", err)
	}
	return nil
}
