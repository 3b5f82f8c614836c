package lease

import (
	"context"
	"errors"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// Why an event is not let through.
var (
	// ErrUnknown means that the database cannot be asked and the share in hand is
	// used up: nobody knows whether the cap is reached.
	ErrUnknown = errors.New("the cap cannot be checked")
	// ErrUnpriced means that the price is not known and the cap refuses such.
	ErrUnpriced = errors.New("the cap refuses events without a known price")
)

// ExceededError means that a cap is reached.
type ExceededError struct{ Standing Standing }

// Error says so.
func (e *ExceededError) Error() string { return "the cap is reached" }

// Charge is what an event that was let through was charged with. It ends with one of Confirm, Refund and Taint, or, if more of
// the event may be written to Kafka at any time, with none of them.
type Charge struct {
	gate    *Gate
	parts   []charged
	cost    schema.NanoUSD
	arrived instant
}

type charged struct {
	meter *meter
	share *share
}

// Standing returns where the tightest of the caps stands. ok is false without a
// cap.
func (c *Charge) Standing() (s Standing, ok bool) {
	if c == nil {
		return Standing{}, false
	}
	for i, part := range c.parts {
		standing, _ := part.meter.standing()
		if i == 0 || standing.Remaining < s.Remaining {
			s = standing
		}
	}
	return s, len(c.parts) > 0
}

// Refund takes the charge back: the event was surely not recorded.
func (c *Charge) Refund() {
	if c == nil {
		return
	}
	for _, part := range c.parts {
		if part.share != nil {
			part.meter.refund(part.share, c.cost)
		}
	}
}

// Confirm notes that Kafka has the event, and returns whether the client may rely on it. If this replica may be taken for dead by now,
// or the event arrived too long ago, the processor may refuse the event because its lease was given to others.
func (c *Charge) Confirm() bool {
	if c == nil {
		return true
	}
	self := c.gate.replica.Load()
	confirmed, capped := true, false
	for _, part := range c.parts {
		if part.share != nil {
			capped = true
			confirmed = part.meter.settle(part.share, self.id) && confirmed
		}
	}
	return !capped || confirmed && c.gate.valid(self) && c.gate.clock.since(c.arrived) < c.gate.times.ConfirmWithin
}

// Taint notes that nobody knows whether the event is recorded, and that nothing more of it is written. Its cost stays
// charged until the processor has read what is written.
func (c *Charge) Taint() {
	if c == nil {
		return
	}
	for _, part := range c.parts {
		if part.share != nil {
			part.meter.taint(part.share)
		}
	}
}

// Admit charges the caps of an event, and notes the leases in it; it may put its
// arrival off to the start of the quarter hour in which it is charged. It returns nil
// for an event without a cap, or an *ExceededError, ErrUnpriced or ErrUnknown.
func (g *Gate) Admit(ctx context.Context, e *schema.Event) (*Charge, error) {
	meters := g.meters.Load()
	if meters == nil {
		return nil, ErrUnknown
	}
	if len(*meters) == 0 {
		return nil, nil //nolint:nilnil // No cap, no charge: the common case.
	}
	c, err := g.chargeAll(ctx, e)
	for err == nil && !c.within(e.ReceivedAt) {
		// A quarter hour ended between the one cap and the other.
		c.Refund()
		e.Leases = nil
		c, err = g.chargeAll(ctx, e)
	}
	switch {
	case err != nil:
		c.Refund()
		e.Leases = nil
		g.note(err)
		return nil, err
	case c != nil:
		g.metrics.decision("allowed")
	}
	return c, nil
}

// chargeAll charges every cap of an event. With an error it returns what it has
// charged before.
func (g *Gate) chargeAll(ctx context.Context, e *schema.Event) (c *Charge, err error) {
	arrived := instant{g.clock.boot(), e.ReceivedAt}
	for _, scope := range [...]budget.Scope{{AccountID: e.AccountID, Agent: e.Agent}, {AccountID: e.AccountID}} {
		m, s, err := g.charge(ctx, scope, e)
		if err != nil {
			return c, err
		}
		if m == nil {
			continue
		}
		if c == nil {
			c = &Charge{gate: g, cost: e.Cost, arrived: arrived}
		}
		c.parts = append(c.parts, charged{m, s})
		if s == nil {
			continue
		}
		e.Leases = append(e.Leases, s.id)
		if e.ReceivedAt.Before(s.bucket) {
			// Others that came later were faster. It counts where it is charged.
			e.ReceivedAt = s.bucket
		}
	}
	return c, nil
}

// within reports whether all shares are of the quarter hour of t.
func (c *Charge) within(t time.Time) bool {
	if c == nil {
		return true
	}
	for _, part := range c.parts {
		if part.share != nil && part.share.over(t) {
			return false
		}
	}
	return true
}

// note counts what was not admitted.
func (g *Gate) note(err error) {
	if errors.Is(err, ErrUnknown) {
		g.metrics.decision("unknown")
		return
	}
	g.metrics.decision("refused")
}

// Refused keeps an event that a cap has refused, and that is not recorded, in the
// ledger of refused events.
func (g *Gate) Refused(e *schema.Event) { g.refused.add(e) }

// maxAsks bounds how often one event asks the database: others may take what it
// was granted before it can.
const maxAsks = 50

// charge charges one cap. The meter is nil when there is none; the share is nil
// for an event that passes uncharged.
func (g *Gate) charge(ctx context.Context, scope budget.Scope, e *schema.Event) (*meter, *share, error) {
	for range maxAsks {
		m := (*g.meters.Load())[scope]
		if m == nil {
			return nil, nil, nil
		}
		if e.Source == schema.CostUnpriced && m.denies() {
			return nil, nil, ErrUnpriced
		}
		if !g.valid(g.replica.Load()) {
			return m, nil, g.onUnknown()
		}
		v, s, c, mine := m.take(time.Now(), e.ReceivedAt, e.Cost)
		switch v {
		case passed:
			return m, s, nil
		case exceeded:
			standing, _ := m.standing()
			return nil, nil, &ExceededError{standing}
		case unknown:
			return m, nil, g.onUnknown()
		case ask:
		}
		if mine {
			g.refill(ctx, scope, m, c)
			continue
		}
		<-c.done // A call ends within callTimeout.
	}
	return nil, nil, ErrUnknown
}

// onUnknown is nil when the operator would rather let events through.
func (g *Gate) onUnknown() error {
	if g.cfg.OnDatabaseDown == "open" {
		g.metrics.decision("open")
		return nil
	}
	return ErrUnknown
}

// refill asks for more and wakes all who wait for it.
func (g *Gate) refill(ctx context.Context, scope budget.Scope, m *meter, c *call) {
	defer m.finish(c)
	// The client may hang up; the answer is for all who wait.
	ctx = context.WithoutCancel(ctx)
	self := g.replica.Load().id
	if m.leaseBy(c.share, self) != self {
		m.refused(c.share) // It is of a replica that was taken for dead.
		return
	}
	granted, err := g.bank.lease(ctx, self, scope, c)
	switch {
	case err != nil:
		g.metrics.call("lease", "failed")
		g.log.WarnContext(ctx, "cap not checked", "error", err)
		m.failed(time.Now(), c)
	case granted.refused:
		g.metrics.call("lease", "refused")
		m.refused(c.share)
		if err := g.load(ctx, g.pool); err != nil {
			m.failed(time.Now(), c)
		}
	default:
		g.metrics.call("lease", "ok")
		m.granted(time.Now(), c, granted)
	}
}

// denies reports whether events without a known price are refused.
func (m *meter) denies() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget.OnUnpriced == budget.Deny
}

func (m *meter) scope() budget.Scope {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget.Scope
}
