package usage

import (
	"context"
	"errors"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// Cap is a budget cap and where it stands in the period of AsOf.
type Cap struct {
	budget.Budget
	Window budget.Window
	State  budget.State
	AsOf   time.Time
}

// Remaining is what is left of the cap, never less than nothing.
func (c *Cap) Remaining() schema.NanoUSD {
	spent := c.State.Spent.Int()
	if !spent.IsInt64() {
		return 0
	}
	return max(0, c.Limit-schema.NanoUSD(spent.Int64()))
}

// usedSteps is how finely Used is given. It is rounded down: 1 means reached.
const usedSteps = 10_000

// Used is the share of the cap that is spent; more than 1 when a cap was lowered.
func (c *Cap) Used() float64 {
	if c.Limit == 0 {
		return 1
	}
	steps := new(big.Int).Mul(c.State.Spent.Int(), big.NewInt(usedSteps))
	whole, _ := steps.Quo(steps, big.NewInt(int64(c.Limit))).Float64()
	return whole / usedSteps
}

// Projected is what will be spent at the end of the period if it goes on at the
// pace since its start, or since the last reset. A cap without an end has none.
func (c *Cap) Projected() *USD {
	if c.Period == budget.Total {
		return nil
	}
	since := c.Window.Start
	if reset := c.State.ResetAt; reset != nil && reset.After(since) {
		since = *reset
	}
	projected := USDOf(c.State.Spent)
	// The first minutes of a period are no pace.
	rest := scaled(&projected.Sum, c.Window.End.Sub(c.AsOf), max(time.Hour, c.AsOf.Sub(since)))
	projected.Add(&rest)
	return &projected
}

// Budgets returns up to limit caps of an account by name, its own first, beginning
// behind that of the agent after.
func (s *Store) Budgets(ctx context.Context, accountID schema.ID, after *string, limit int, now time.Time) ([]Cap, error) {
	return s.caps(ctx, accountID, now, func(b *pgx.Batch, found *[]budget.Budget) {
		budget.QueuePage(b, accountID, after, limit, found)
	})
}

// caps returns the caps that find reads, with where they stand.
func (s *Store) caps(ctx context.Context, accountID schema.ID, now time.Time, find func(*pgx.Batch, *[]budget.Budget)) ([]Cap, error) {
	var budgets []budget.Budget
	var states []budget.State
	var caps []Cap
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) { find(b, &budgets) }, func(b *pgx.Batch) {
		caps = newCaps(budgets, now)
		if len(caps) > 0 {
			agents, windows := placesOf(caps)
			budget.QueueStates(b, accountID, agents, windows, &states)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range states {
		caps[i].State = states[i]
	}
	return caps, nil
}

// Budget returns the cap of an agent, or of the account for the empty name. It
// returns ErrNotFound.
func (s *Store) Budget(ctx context.Context, scope budget.Scope, now time.Time) (Cap, error) {
	var found Cap
	err := s.read(ctx, scope.AccountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		found, err = ReadCap(ctx, tx, scope, now)
		return err
	})
	return found, err
}

// ReadCap is Budget within a transaction of the caller's.
func ReadCap(ctx context.Context, tx pgx.Tx, scope budget.Scope, now time.Time) (Cap, error) {
	b, err := budget.NewStore(tx).Get(ctx, scope)
	if errors.Is(err, budget.ErrNotFound) {
		return Cap{}, ErrNotFound
	}
	if err != nil {
		return Cap{}, err
	}
	caps, err := standing(ctx, tx, scope.AccountID, []budget.Budget{b}, now)
	if err != nil {
		return Cap{}, err
	}
	return caps[0], nil
}

// standing adds to caps where they stand, with one question for all of them.
func standing(ctx context.Context, tx pgx.Tx, accountID schema.ID, budgets []budget.Budget, now time.Time) ([]Cap, error) {
	caps := newCaps(budgets, now)
	agents, windows := placesOf(caps)
	states, err := budget.NewStore(tx).States(ctx, accountID, agents, windows)
	if err != nil {
		return nil, err
	}
	for i := range caps {
		caps[i].State = states[i]
	}
	return caps, nil
}

// newCaps returns caps in their periods of now.
func newCaps(budgets []budget.Budget, now time.Time) []Cap {
	caps := make([]Cap, len(budgets))
	for i, b := range budgets {
		caps[i] = Cap{Budget: b, Window: b.Window(now), AsOf: now}
	}
	return caps
}

// placesOf returns what the state of each cap is asked with.
func placesOf(caps []Cap) (agents []string, windows []budget.Window) {
	for i := range caps {
		agents, windows = append(agents, caps[i].Agent), append(windows, caps[i].Window)
	}
	return agents, windows
}

// CapsOf returns the caps that these agents have, by name.
func (s *Store) CapsOf(ctx context.Context, accountID schema.ID, agents []string, now time.Time) (map[string]*Cap, error) {
	caps, err := s.caps(ctx, accountID, now, func(b *pgx.Batch, found *[]budget.Budget) {
		budget.QueueOfAgents(b, accountID, agents, found)
	})
	found := map[string]*Cap{}
	for i := range caps {
		found[caps[i].Agent] = &caps[i]
	}
	return found, err
}
