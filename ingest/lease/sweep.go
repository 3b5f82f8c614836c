package lease

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/schema"
)

const (
	// sweepInterval is how soon a share that is not used goes back.
	sweepInterval = 250 * time.Millisecond
	// beatInterval is how often the replica says that it is alive.
	beatInterval = 2 * time.Second
	// validFor is how long shares may be spent after that. The processor takes a
	// replica for dead, and its shares back, only after DeadAfter.
	validFor = 60 * time.Second
	// closingTimeout bounds giving everything back at the end.
	closingTimeout = 5 * time.Second
)

// beat keeps the shares valid. After too long a silence the replica goes on as
// another one: its shares may have been taken back.
func (g *Gate) beat(ctx context.Context) {
	for {
		sent := time.Since(g.started)
		if int64(sent) > g.validUntil.Load() {
			id := schema.NewID(g.now())
			g.replica.Store(&id)
			g.retireAll()
		}
		if err := g.bank.beat(ctx, *g.replica.Load()); err == nil {
			g.validUntil.Store(int64(sent + validFor))
		} else if ctx.Err() == nil {
			g.log.WarnContext(ctx, "replica not noted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(beatInterval):
		}
	}
}

func (g *Gate) retireAll() {
	meters := g.meters.Load()
	if meters == nil {
		return
	}
	for _, m := range *meters {
		m.remove()
	}
}

// sweep gives back what is not used, closes what is not in use, and writes down
// what was refused.
func (g *Gate) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			g.close(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
		g.sweepOnce(ctx)
		if n%4 == 0 {
			g.writeRefused(ctx)
		}
	}
}

func (g *Gate) sweepOnce(ctx context.Context) {
	for _, m := range g.allMeters() {
		if ok := g.settle(ctx, m); !ok {
			return // The database is away: the next sweep tries again.
		}
	}
	g.leavingMu.Lock()
	defer g.leavingMu.Unlock()
	kept := g.leaving[:0]
	for _, m := range g.leaving {
		if m.hasUnsettled() {
			kept = append(kept, m)
		}
	}
	g.leaving = kept
}

// allMeters returns the meters in use and those that leave.
func (g *Gate) allMeters() []*meter {
	g.leavingMu.Lock()
	defer g.leavingMu.Unlock()
	all := append([]*meter(nil), g.leaving...)
	if meters := g.meters.Load(); meters != nil {
		for _, m := range *meters {
			all = append(all, m)
		}
	}
	return all
}

// settle closes the shares of a meter that are out of use, and gives an idle
// balance back. It returns false when the database did not answer.
func (g *Gate) settle(ctx context.Context, m *meter) bool {
	shares := m.takeUnsettled()
	for i, s := range shares {
		if err := g.bank.settle(ctx, *g.replica.Load(), m.scope(), s, m.keeps(s), true); err != nil {
			for _, rest := range shares[i:] {
				m.putBack(rest)
			}
			g.metrics.call("close", "failed")
			return false
		}
		g.metrics.call("close", "ok")
	}
	c := m.idle()
	if c == nil {
		return true
	}
	defer m.finish(c)
	if err := g.bank.settle(ctx, *g.replica.Load(), m.scope(), c.share, m.keeps(c.share), false); err != nil {
		g.metrics.call("return", "failed")
		m.failed(time.Now(), c)
		return false
	}
	g.metrics.call("return", "ok")
	return true
}

func (m *meter) hasUnsettled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.unsettled) > 0
}

// close gives everything back. What is on its way in Kafka stays leased until it
// is stored.
func (g *Gate) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closingTimeout)
	defer cancel()
	g.retireAll()
	g.sweepOnce(ctx)
	g.writeRefused(ctx)
}
