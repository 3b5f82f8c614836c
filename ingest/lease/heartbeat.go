package lease

import (
	"context"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
)

// replica is this process as the database knows it. A process that was silent for too long goes on as another replica, because the
// leases of the former may have been given to others.
type replica struct {
	id schema.ID
	// seen says that the database has confirmed a heartbeat; heartbeat is when the last of those was sent.
	seen      bool
	heartbeat instant
}

// beatsPerValidity is how many heartbeats are sent while one is valid.
const beatsPerValidity = 30

// valid reports whether the leases of r may be used now.
func (g *Gate) valid(r *replica) bool {
	return r.seen && g.clock.since(r.heartbeat) < g.times.ValidFor
}

// beat keeps the leases valid until ctx ends.
func (g *Gate) beat(ctx context.Context) {
	for {
		if err := g.heartbeat(ctx); err != nil && ctx.Err() == nil {
			g.log.WarnContext(ctx, "heartbeat not confirmed", "error", err)
		}
		if backoff.Sleep(ctx, g.times.ValidFor/beatsPerValidity) != nil {
			return
		}
	}
}

// heartbeat sends one. If the last is no longer valid, by this machine's clocks or by the database's, it is sent for another replica.
func (g *Gate) heartbeat(ctx context.Context) error {
	self := g.replica.Load()
	if self.seen && !g.valid(self) {
		self = g.becomeAnother()
	}
	sent := g.clock.now()
	known, err := g.bank.beat(ctx, self, g.times.ValidFor)
	if err != nil {
		return err
	}
	if !known {
		g.log.WarnContext(ctx, "this replica was silent for too long and goes on as another; its leases of budget caps are given back")
		self, sent = g.becomeAnother(), g.clock.now()
		if known, err = g.bank.beat(ctx, self, g.times.ValidFor); err != nil || !known {
			return err
		}
	}
	g.replica.Store(&replica{id: self.id, seen: true, heartbeat: sent})
	return nil
}

// becomeAnother goes on as a replica that has no leases, and that is valid after its first heartbeat.
func (g *Gate) becomeAnother() *replica {
	r := &replica{id: schema.NewID(g.now())}
	g.replica.Store(r)
	g.retireAll()
	return r
}
