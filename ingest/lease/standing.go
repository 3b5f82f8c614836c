package lease

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/budget"
)

// Standing returns where a cap stands without charging it. It asks the database, and
// while that is away goes by what this replica knows of the period. ok is false
// without a cap. The error is ErrUnknown.
func (g *Gate) Standing(ctx context.Context, scope budget.Scope) (s Standing, ok bool, err error) {
	return g.standing(ctx, scope, false)
}

// Known is Standing of the tighter of the caps of an agent and its account, and asks
// the database only about a period of which this replica knows nothing. ok is false
// without a cap and when nobody knows.
func (g *Gate) Known(ctx context.Context, agent budget.Scope) (tightest Standing, ok bool) {
	for _, scope := range [...]budget.Scope{agent, {AccountID: agent.AccountID}} {
		s, capped, err := g.standing(ctx, scope, true)
		if capped && err == nil && (!ok || s.Remaining < tightest.Remaining) {
			tightest, ok = s, true
		}
	}
	return tightest, ok
}

func (g *Gate) standing(ctx context.Context, scope budget.Scope, knownServes bool) (Standing, bool, error) {
	meters := g.meters.Load()
	if meters == nil {
		return Standing{}, false, ErrUnknown
	}
	m := (*meters)[scope]
	if m == nil {
		return Standing{}, false, nil
	}
	if !knownServes || !m.knows(g.now()) {
		var err error
		if m, err = g.look(ctx, scope, m); err != nil && ctx.Err() == nil {
			g.metrics.call("standing", "failed")
			g.log.WarnContext(ctx, "cap not read", "error", err)
		}
		if m == nil {
			return Standing{}, false, nil
		}
	}
	s, known := m.standing()
	if !known && g.onUnknown() != nil {
		return Standing{}, true, ErrUnknown
	}
	return s, true, nil
}

// look asks the database where a cap stands, once for all who ask at the same time. It
// returns the meter that was asked about, which is another after a change of the cap,
// or nil for a cap that was removed.
func (g *Gate) look(ctx context.Context, scope budget.Scope, m *meter) (*meter, error) {
	// The client may hang up; the answer is for all who wait.
	ctx = context.WithoutCancel(ctx)
	since := m.calls()
	for range maxAsks {
		c, mine, ok := m.look(g.now(), since)
		switch {
		case ok:
			return m, nil
		case c == nil:
			return m, ErrUnknown
		case !mine:
			<-c.done // A call ends within callTimeout.
			continue
		}
		err := g.lookOnce(ctx, scope, m, c)
		if !errors.Is(err, pgx.ErrNoRows) {
			return m, err
		}
		if err := g.load(ctx, g.pool); err != nil {
			return m, err
		}
		if m = (*g.meters.Load())[scope]; m == nil {
			return nil, nil //nolint:nilnil // No cap, no meter.
		}
		since = m.calls()
	}
	return m, ErrUnknown
}

func (g *Gate) lookOnce(ctx context.Context, scope budget.Scope, m *meter, c *call) error {
	defer m.finish(c)
	f, err := g.bank.look(ctx, scope, c)
	if err != nil {
		if !errors.Is(err, pgx.ErrNoRows) {
			m.lookFailed(c)
		}
		return err
	}
	g.metrics.call("standing", "ok")
	m.looked(c, f)
	return nil
}

// knows reports whether the database was asked about the period of now.
func (m *meter) knows(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.asked && m.known.window.Contains(now)
}
