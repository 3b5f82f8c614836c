package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// Standing says where a cap stands without charging it: what is left for an event
// that this replica is asked to let through now. It asks the database, and while
// that is away goes by what this replica knows, if it ever leased of the period. ok
// is false without a cap. The error is ErrUnknown.
func (g *Gate) Standing(ctx context.Context, scope budget.Scope) (s Standing, ok bool, err error) {
	meters := g.meters.Load()
	if meters == nil {
		return Standing{}, false, ErrUnknown
	}
	m := (*meters)[scope]
	if m == nil {
		return Standing{}, false, nil
	}
	now := g.now()
	b, window, balance := m.holds(now)
	s = Standing{Budget: b}
	if b.Period != budget.Total {
		s.ResetsAt = window.End
	}
	// The balance was read first. What is leased meanwhile counts for others, so
	// that rather too little than too much is told.
	limit, left, err := g.bank.left(ctx, scope, window)
	switch {
	case err == nil:
		g.metrics.call("standing", "ok")
		s.Budget.Limit, s.Remaining = limit, min(limit, left+balance)
		return s, true, nil
	case errors.Is(err, pgx.ErrNoRows):
		return Standing{}, false, nil
	case ctx.Err() == nil:
		g.metrics.call("standing", "failed")
		g.log.WarnContext(ctx, "cap not read", "error", err)
	}
	if known, ok := m.recall(now); ok {
		return known, true, nil
	}
	if g.onUnknown() != nil {
		return Standing{}, true, ErrUnknown
	}
	s.Remaining = b.Limit
	return s, true, nil
}

// holds returns the cap, its period, and what this replica holds of that.
func (m *meter) holds(now time.Time) (b budget.Budget, w budget.Window, balance schema.NanoUSD) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.share != nil && m.share.window.Contains(now) {
		return m.budget, m.share.window, m.balance
	}
	return m.budget, m.budget.Window(now), 0
}

// recall returns where the cap stood when the database was last asked. ok is false
// if it never was in this period.
func (m *meter) recall(now time.Time) (s Standing, ok bool) {
	m.mu.Lock()
	known := m.share != nil && m.share.leased && m.share.window.Contains(now)
	m.mu.Unlock()
	if !known {
		return Standing{}, false
	}
	return m.standing(), true
}

const selectLeft = `
SELECT b.limit_nano_usd,
  greatest(b.limit_nano_usd - budget_spent($1, $2, $3, $4) - budget_leased($1, $2, $3, $4), 0)::bigint
FROM budgets b WHERE b.account_id = $1 AND b.agent = $2`

// left returns a cap's limit and what of it is neither spent nor leased. It returns
// pgx.ErrNoRows for a cap that was removed.
func (b *bank) left(ctx context.Context, scope budget.Scope, w budget.Window) (limit, left schema.NanoUSD, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	err = b.pool.QueryRow(ctx, selectLeft, scope.AccountID, scope.Agent, w.Start, w.End).Scan(&limit, &left)
	if err != nil {
		return 0, 0, fmt.Errorf("read what is left of a cap: %w", err)
	}
	return limit, left, nil
}
