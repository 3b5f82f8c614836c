package query

import (
	"sync"
	"time"
)

// rateLimit bounds how often an address may ask what needs no sign-in. It counts
// in memory and whole windows: each replica has its own. It is safe for concurrent
// use.
type rateLimit struct {
	now     func() time.Time
	allowed int
	window  time.Duration

	mu     sync.Mutex
	start  time.Time
	counts map[string]int
}

func newRateLimit(now func() time.Time, allowed int, window time.Duration) *rateLimit {
	return &rateLimit{now: now, allowed: allowed, window: window, counts: map[string]int{}}
}

// maxAddresses bounds the memory. Beyond it, addresses that are new in this window
// share one count.
const maxAddresses = 50_000

// wait counts a request and returns 0, or how long the address has to wait.
func (r *rateLimit) wait(address string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.start) >= r.window {
		r.start = now.Truncate(r.window)
		clear(r.counts)
	}
	if _, known := r.counts[address]; !known && len(r.counts) >= maxAddresses {
		address = ""
	}
	r.counts[address]++
	if r.counts[address] > r.allowed {
		return r.start.Add(r.window).Sub(now)
	}
	return 0
}
