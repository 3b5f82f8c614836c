package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema"
)

// ErrNotFound is returned for a scope without a cap.
var ErrNotFound = errors.New("there is no budget")

// DB is what Store needs of pgx: a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Store reads and writes caps.
type Store struct{ db DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db DB) *Store { return &Store{db} }

const putBudget = `
INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone, alert_at, on_unpriced)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (account_id, agent) DO UPDATE SET
  limit_nano_usd = excluded.limit_nano_usd, period = excluded.period, timezone = excluded.timezone,
  alert_at = excluded.alert_at, on_unpriced = excluded.on_unpriced, updated_at = now()`

// Put sets a cap, which was checked. Ingest obeys it within a second. What was
// spent in the period before counts.
func (s *Store) Put(ctx context.Context, b Budget) error {
	if b.AlertAt == nil {
		b.AlertAt = []float64{}
	}
	_, err := s.db.Exec(ctx, putBudget, b.AccountID, b.Agent, int64(b.Limit), b.Period, b.Timezone, b.AlertAt, b.OnUnpriced)
	if err != nil {
		return fmt.Errorf("set budget: %w", err)
	}
	return nil
}

const deleteBudget = `DELETE FROM budgets WHERE account_id = $1 AND agent = $2`

// Delete removes a cap. It returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, scope Scope) error {
	tag, err := s.db.Exec(ctx, deleteBudget, scope.AccountID, scope.Agent)
	if err != nil {
		return fmt.Errorf("remove budget: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotFound
	}
	return nil
}

const selectBudget = `
SELECT account_id, agent, limit_nano_usd, period, timezone, alert_at, on_unpriced, epoch, created_at, updated_at
FROM budgets`

func scanBudget(row pgx.CollectableRow) (b Budget, err error) {
	err = row.Scan(&b.AccountID, &b.Agent, &b.Limit, &b.Period, &b.Timezone, &b.AlertAt, &b.OnUnpriced,
		&b.Epoch, &b.CreatedAt, &b.UpdatedAt)
	return b, err
}

// Get returns a cap. It returns ErrNotFound.
func (s *Store) Get(ctx context.Context, scope Scope) (Budget, error) {
	rows, _ := s.db.Query(ctx, selectBudget+` WHERE account_id = $1 AND agent = $2`, scope.AccountID, scope.Agent)
	b, err := pgx.CollectExactlyOneRow(rows, scanBudget)
	if errors.Is(err, pgx.ErrNoRows) {
		return Budget{}, ErrNotFound
	}
	if err != nil {
		return Budget{}, fmt.Errorf("read budget: %w", err)
	}
	return b, nil
}

// OfAccount lists the caps of an account by name, the account's own first.
func (s *Store) OfAccount(ctx context.Context, accountID schema.ID) ([]Budget, error) {
	rows, _ := s.db.Query(ctx, selectBudget+` WHERE account_id = $1 ORDER BY agent`, accountID)
	return collect(rows)
}

// All lists every cap, for ingest.
func (s *Store) All(ctx context.Context) ([]Budget, error) {
	rows, _ := s.db.Query(ctx, selectBudget)
	return collect(rows)
}

func collect(rows pgx.Rows) ([]Budget, error) {
	budgets, err := pgx.CollectRows(rows, scanBudget)
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	return budgets, nil
}

// State is where a cap stands in a period.
type State struct {
	// Spent is the cost of the stored events of the period since its last reset.
	Spent schema.NanoUSD
	// Leased is what ingest holds or has accepted and is not stored yet.
	Leased schema.NanoUSD
	// Refused events and what they would have cost, in the period.
	RefusedEvents int64
	RefusedCost   schema.NanoUSD
	ResetAt       *time.Time
}

const selectState = `
SELECT budget_spent($1, $2, $3, $4)::bigint, budget_leased($1, $2, $3)::bigint,
  (SELECT coalesce(sum(events), 0)::bigint FROM refused_events r
   WHERE r.account_id = $1 AND ($2 = '' OR r.agent = $2) AND r.bucket >= $3 AND r.bucket < $4),
  (SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM refused_events r
   WHERE r.account_id = $1 AND ($2 = '' OR r.agent = $2) AND r.bucket >= $3 AND r.bucket < $4),
  (SELECT max(at) FROM budget_resets r WHERE r.account_id = $1 AND r.agent = $2 AND r.period_start = $3)`

// State returns where a cap stands in the period w.
func (s *Store) State(ctx context.Context, scope Scope, w Window) (State, error) {
	var st State
	err := s.db.QueryRow(ctx, selectState, scope.AccountID, scope.Agent, w.Start, w.End).
		Scan(&st.Spent, &st.Leased, &st.RefusedEvents, &st.RefusedCost, &st.ResetAt)
	if err != nil {
		return State{}, fmt.Errorf("read budget state: %w", err)
	}
	return st, nil
}

const resetBudget = `SELECT reset_budget($1, $2, $3, $4, $5)::text`

// Reset starts the spend of the period w again from zero. byUser may be nil. It
// returns ErrNotFound.
func (s *Store) Reset(ctx context.Context, scope Scope, w Window, byUser *schema.ID) error {
	var before *string
	if err := s.db.QueryRow(ctx, resetBudget, scope.AccountID, scope.Agent, w.Start, w.End, byUser).Scan(&before); err != nil {
		return fmt.Errorf("reset budget: %w", err)
	}
	if before == nil {
		return ErrNotFound
	}
	return nil
}
