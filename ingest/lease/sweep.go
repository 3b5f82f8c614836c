package lease

import (
	"context"
	"time"
)

const (
	// sweepInterval is how soon a share that is not used goes back.
	sweepInterval = 250 * time.Millisecond
	// closingTimeout bounds giving everything back at the end.
	closingTimeout = 5 * time.Second
)

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

// settle closes the shares of a meter that are out of use and have nothing in flight, and gives an idle
// balance back. It returns false when the database did not answer.
func (g *Gate) settle(ctx context.Context, m *meter) bool {
	shares := m.takeUnsettled()
	for i, s := range shares {
		if err := g.settleShare(ctx, m, s); err != nil {
			for _, rest := range shares[i:] {
				m.putBack(rest)
			}
			return false
		}
	}
	c := m.idle()
	if c == nil {
		return true
	}
	defer m.finish(c)
	keep, _ := m.keeps(c.share)
	if err := g.bank.settle(ctx, m.scope(), c.share, keep, false); err != nil {
		g.metrics.call("return", "failed")
		m.failed(time.Now(), c)
		return false
	}
	g.metrics.call("return", "ok")
	return true
}

// settleShare closes a share that is out of use. While something of it is in flight it only gives back what is not charged.
func (g *Gate) settleShare(ctx context.Context, m *meter, s *share) error {
	keep, closes := m.keeps(s)
	if !closes && s.returned && s.kept == keep {
		m.putBack(s)
		return nil
	}
	call := "return"
	if closes {
		call = "close"
	}
	if err := g.bank.settle(ctx, m.scope(), s, keep, closes); err != nil {
		g.metrics.call(call, "failed")
		return err
	}
	g.metrics.call(call, "ok")
	if !closes {
		s.kept, s.returned = keep, true // Only the sweep looks at them.
		m.putBack(s)
	}
	return nil
}

func (m *meter) hasUnsettled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.unsettled) > 0
}

// close gives everything back. What is on its way in Kafka stays leased until it
// is stored, or this replica is taken for dead.
func (g *Gate) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closingTimeout)
	defer cancel()
	g.retireAll()
	g.sweepOnce(ctx)
	g.writeRefused(ctx)
}
