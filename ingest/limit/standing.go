package limit

import "time"

// Standing is where an account stands in its window after a request, as this
// replica knows it: what other replicas hold counts as used.
type Standing struct {
	Allowed bool
	// Limit is how many events the window has, Remaining how many of them are left.
	Limit, Remaining int64
	// Reset is when the window ends, in Unix seconds.
	Reset int64
	// RetryAfter is how long to wait after a refusal. By then the next window has
	// begun on every replica.
	RetryAfter time.Duration
}

// clockMargin is how far the clocks of two replicas may be apart after both were
// set by the database's.
const clockMargin = 100 * time.Millisecond

func (l *Limiter) standing(w *window, v verdict, now int64) Standing {
	s := Standing{Allowed: v != refused, Limit: w.limit, Reset: w.start + windowSeconds}
	if l.away.Load() {
		s.Remaining = w.remaining(l.part(now))
	} else {
		s.Remaining = max(0, w.hand.Load()) + max(0, w.rest.Load())
	}
	s.RetryAfter = time.Duration(s.Reset*int64(time.Second)-now) + clockMargin
	return s
}
