package lease

import "time"

// instant is a moment by two clocks: one that counts time in which the machine was suspended, and the calendar.
type instant struct {
	boot time.Duration
	wall time.Time
}

// clock reads both clocks. Neither is enough alone: the first stands still while a virtual machine is paused from outside, the
// second is set back by time servers.
type clock struct {
	boot func() time.Duration
	wall func() time.Time
}

func (c clock) now() instant {
	// Round removes the monotonic reading: the difference of two such times is that of the calendar.
	return instant{c.boot(), c.wall().Round(0)}
}

// since is how long ago i was: the larger of what the clocks return.
func (c clock) since(i instant) time.Duration {
	now := c.now()
	return max(now.boot-i.boot, now.wall.Sub(i.wall))
}
