package query

import (
	"crypto/sha256"
	"sync"
	"time"
)

// rateLimit bounds how often somebody, such as an address or an account, may ask. It counts
// in memory and whole minutes of the clock: each replica has its own. It is safe for concurrent
// use.
type rateLimit struct {
	// now is the server's clock; tests have their own.
	now func() time.Time

	mu     sync.Mutex
	start  time.Time
	counts map[string]int64
}

func newRateLimit(now func() time.Time) *rateLimit {
	return &rateLimit{now: now, counts: map[string]int64{}}
}

const rateWindow = time.Minute

// rateState is where a sender stands in the present minute.
type rateState struct {
	// limit is how many requests the minute has, remaining how many of them are left.
	limit, remaining int64
	// reset is the end of the minute.
	reset time.Time
	// wait is 0 for a request that is allowed, else the time until the end.
	wait time.Duration
}

// maxCounts bounds the memory. Beyond it, those that are new in this window share one
// count.
const maxCounts = 50_000

// take counts a request of a sender who has limit of them a minute. One that is refused counts as well, and changes nothing.
func (r *rateLimit) take(sender string, limit int64) rateState {
	r.mu.Lock()
	defer r.mu.Unlock()
	sender = r.roll(sender)
	r.counts[sender]++
	return r.state(r.counts[sender], limit)
}

// look returns what take would, without counting.
func (r *rateLimit) look(sender string, limit int64) rateState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state(r.counts[r.roll(sender)]+1, limit)
}

// roll begins a new minute when it is time, and returns under which name the sender counts. It holds mu.
func (r *rateLimit) roll(sender string) string {
	if now := r.now(); now.Sub(r.start).Abs() >= rateWindow {
		r.start = now.Truncate(rateWindow)
		clear(r.counts)
	}
	if _, known := r.counts[sender]; !known && len(r.counts) >= maxCounts {
		return ""
	}
	return sender
}

// state is that of the sender's request number n. It holds mu.
func (r *rateLimit) state(n, limit int64) rateState {
	s := rateState{limit: limit, remaining: max(0, limit-n), reset: r.start.Add(rateWindow)}
	if n > limit {
		s.wait = s.reset.Sub(r.now())
	}
	return s
}

// recentLinks are hashes of share links that were opened lately. It is safe for
// concurrent use.
type recentLinks struct {
	mu    sync.Mutex
	links map[[sha256.Size]byte]struct{}
}

func newRecentLinks() *recentLinks {
	return &recentLinks{links: map[[sha256.Size]byte]struct{}{}}
}

// maxRecentLinks bounds the memory; when it is full it starts anew.
const maxRecentLinks = 10_000

func (r *recentLinks) add(link [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.links) >= maxRecentLinks {
		clear(r.links)
	}
	r.links[link] = struct{}{}
}

func (r *recentLinks) remove(link [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, link)
}

func (r *recentLinks) has(link [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.links[link]
	return has
}
