package limit

import (
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// checksPerEvent is how many budget checks an account may make for each event that it
// may send.
const checksPerEvent = 10

// Checks limits budget checks by account, apart from events: an agent that asks before
// each of its calls must not use up what it may send. Every replica counts its own, in
// memory, since a check records nothing. It is safe for concurrent use.
type Checks struct {
	cfg Config
	now func() time.Time

	mu     sync.Mutex
	start  int64 // of the window, in Unix seconds
	counts map[schema.ID]int64
}

// NewChecks returns a Checks that allows ten times the events of each plan.
func NewChecks(cfg Config, now func() time.Time) *Checks {
	return &Checks{cfg: cfg, now: now, counts: map[schema.ID]int64{}}
}

// Take counts one check.
func (c *Checks) Take(id schema.ID, plan account.Plan) Standing {
	now := c.now()
	start := now.Unix() / windowSeconds * windowSeconds
	limit := checksPerEvent * c.cfg.Of(plan)
	c.mu.Lock()
	defer c.mu.Unlock()
	if start != c.start {
		c.start = start
		clear(c.counts)
	}
	s := Standing{Limit: limit, Reset: start + windowSeconds}
	s.RetryAfter = time.Unix(s.Reset, 0).Sub(now)
	if s.Allowed = c.counts[id] < limit; s.Allowed {
		c.counts[id]++
	}
	s.Remaining = max(0, limit-c.counts[id])
	return s
}
