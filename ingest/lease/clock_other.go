//go:build !linux

package lease

import "time"

var start = time.Now()

// sinceBoot is the time since this process has started. Whether it includes the time in which the machine was suspended depends on the
// system; the calendar does.
func sinceBoot() time.Duration { return time.Since(start) }
