package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine has started, including the time in which it was suspended.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("BUG: this machine has no CLOCK_BOOTTIME: " + err.Error()) // Every Linux that Go runs on has it.
	}
	return time.Duration(t.Nano())
}
