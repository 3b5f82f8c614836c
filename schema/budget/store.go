package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// ErrNotFound is returned for a scope without a cap.
var ErrNotFound = errors.New("there is no budget")

// Store reads and writes caps.
type Store struct{ db pgdb.DB }

// NewStore returns a Store on db, which the caller owns.
func NewStore(db pgdb.DB) *Store { return &Store{db} }

const putBudget = `
INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone, alert_at, on_unpriced, epoch)
VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT coalesce(max(epoch), 0) FROM budget_resets WHERE account_id = $1 AND agent = $2))
ON CONFLICT (account_id, agent) DO UPDATE SET
  limit_nano_usd = excluded.limit_nano_usd, period = excluded.period, timezone = excluded.timezone,
  alert_at = excluded.alert_at, on_unpriced = excluded.on_unpriced, updated_at = now()`

// Put sets a cap, which was checked. Ingest obeys it within a second. What was
// spent in the period before counts, also while there was no cap or one for another
// period, save what a reset has taken out.
func (s *Store) Put(ctx context.Context, b Budget) error {
	if b.AlertAt == nil {
		b.AlertAt = []float64{}
	}
	return pgdb.Exec(ctx, s.db, "set budget", putBudget, b.AccountID, b.Agent, int64(b.Limit), b.Period, b.Timezone, b.AlertAt, b.OnUnpriced)
}

const deleteBudget = `DELETE FROM budgets WHERE account_id = $1 AND agent = $2`

// Delete removes a cap. It returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, scope Scope) error {
	return pgdb.Change(ctx, s.db, "remove budget", ErrNotFound, deleteBudget, scope.AccountID, scope.Agent)
}

const selectBudget = `
SELECT account_id, agent, limit_nano_usd, period, timezone, alert_at, on_unpriced, epoch, created_at, updated_at, overdrawn_at
FROM budgets`

func scanBudget(row pgx.CollectableRow) (b Budget, err error) {
	var overdrawn *time.Time
	err = row.Scan(&b.AccountID, &b.Agent, &b.Limit, &b.Period, &b.Timezone, &b.AlertAt, &b.OnUnpriced,
		&b.Epoch, &b.CreatedAt, &b.UpdatedAt, &overdrawn)
	if overdrawn != nil {
		b.OverdrawnAt = *overdrawn
	}
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

const pageOfBudgets = selectBudget + `
WHERE account_id = $1 AND ($2::text IS NULL OR agent COLLATE "C" > $2)
ORDER BY agent COLLATE "C" LIMIT $3`

// Page lists up to limit caps of an account by name, the account's own first. With
// after it begins behind the cap of that agent.
func (s *Store) Page(ctx context.Context, accountID schema.ID, after *string, limit int) ([]Budget, error) {
	rows, _ := s.db.Query(ctx, pageOfBudgets, accountID, after, limit)
	return collect(rows)
}

// QueuePage is Page in a batch: it reads into budgets.
func QueuePage(b *pgx.Batch, accountID schema.ID, after *string, limit int, budgets *[]Budget) {
	b.Queue(pageOfBudgets, accountID, after, limit).Query(collectInto(budgets))
}

const budgetsOfAgents = selectBudget + ` WHERE account_id = $1 AND agent = ANY($2)`

// OfAgents lists the caps that these agents of an account have, in no order.
func (s *Store) OfAgents(ctx context.Context, accountID schema.ID, agents []string) ([]Budget, error) {
	rows, _ := s.db.Query(ctx, budgetsOfAgents, accountID, agents)
	return collect(rows)
}

// QueueOfAgents is OfAgents in a batch: it reads into budgets.
func QueueOfAgents(b *pgx.Batch, accountID schema.ID, agents []string, budgets *[]Budget) {
	b.Queue(budgetsOfAgents, accountID, agents).Query(collectInto(budgets))
}

func collectInto(budgets *[]Budget) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*budgets, err = collect(rows)
		return err
	}
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
	// Spent is the cost in nano-dollars of the stored events of the period since its
	// last reset.
	Spent schema.Sum
	// Leased is what ingest holds or has accepted and is not stored yet. It is about
	// as large as the cap at most.
	Leased schema.NanoUSD
	// Refused events and what they would have cost, in the period. Of an account
	// they are all that were refused, because of its own cap or of an agent's.
	RefusedEvents int64
	RefusedCost   schema.Sum
	// ResetAt and ResetBy are of the last reset since which alone Spent counts; nil
	// without one in the period. ResetBy is nil also when no user did it.
	ResetAt *time.Time
	ResetBy *schema.ID
}

const selectStates = `
SELECT greatest(budget_spent($1, q.agent, q.start, q.finish), 0) AS spent,
  least(budget_leased($1, q.agent, q.start, q.finish), 9223372036854775807)::bigint AS leased,
  refused.events AS refused_events, refused.cost AS refused_cost, reset.at AS reset_at, reset.by_user AS reset_by
FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS q (agent, start, finish, n)
CROSS JOIN LATERAL (
  SELECT coalesce(sum(events), 0)::bigint AS events, coalesce(sum(cost_nano_usd), 0) AS cost
  FROM (
    SELECT events, cost_nano_usd FROM refused_events r
    WHERE q.agent <> '' AND r.account_id = $1 AND r.agent = q.agent AND r.bucket >= q.start AND r.bucket < q.finish
    UNION ALL
    SELECT events, cost_nano_usd FROM refused_events r
    WHERE q.agent = '' AND r.account_id = $1 AND r.bucket >= q.start AND r.bucket < q.finish
  ) AS rows
) AS refused
LEFT JOIN LATERAL (
  SELECT at, by_user FROM budget_resets r
  WHERE r.account_id = $1 AND r.agent = q.agent AND r.period_start <= q.start AND r.at >= q.start AND r.at < q.finish
  ORDER BY at DESC LIMIT 1
) AS reset ON true
ORDER BY q.n`

// States returns where caps of one account stand, each in the period of the same
// index, with one question to the database.
func (s *Store) States(ctx context.Context, accountID schema.ID, agents []string, windows []Window) ([]State, error) {
	starts, ends := bounds(windows)
	rows, _ := s.db.Query(ctx, selectStates, accountID, agents, starts, ends)
	return collectStates(rows)
}

// QueueStates is States in a batch: it reads into states.
func QueueStates(b *pgx.Batch, accountID schema.ID, agents []string, windows []Window, states *[]State) {
	starts, ends := bounds(windows)
	b.Queue(selectStates, accountID, agents, starts, ends).Query(func(rows pgx.Rows) (err error) {
		*states, err = collectStates(rows)
		return err
	})
}

func bounds(windows []Window) (starts, ends []time.Time) {
	for _, w := range windows {
		starts, ends = append(starts, w.Start), append(ends, w.End)
	}
	return starts, ends
}

func collectStates(rows pgx.Rows) ([]State, error) {
	states, err := pgx.CollectRows(rows, pgx.RowToStructByName[State])
	if err != nil {
		return nil, fmt.Errorf("read state of budgets: %w", err)
	}
	return states, nil
}

// State returns where a cap stands in the period w.
func (s *Store) State(ctx context.Context, scope Scope, w Window) (State, error) {
	states, err := s.States(ctx, scope.AccountID, []string{scope.Agent}, []Window{w})
	if err != nil {
		return State{}, err
	}
	return states[0], nil
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
