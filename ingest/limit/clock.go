package limit

import (
	"sync/atomic"
	"time"
)

// clock is the database's clock as far as it is known, so that all replicas change
// windows at the same moment, however wrong their own clocks are.
type clock struct {
	now    func() time.Time
	offset atomic.Int64 // nanoseconds that the database is ahead
}

func (c *clock) unixNano() int64 { return c.now().UnixNano() + c.offset.Load() }

// set takes over what the database said in answer to a question sent and answered
// at these times of our own clock. The answer was made somewhere between them.
func (c *clock) set(database, sent, answered time.Time) {
	c.offset.Store(int64(database.Sub(sent) - answered.Sub(sent)/2))
}
