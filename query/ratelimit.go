package query

import (
	"crypto/sha256"
	"sync"
	"time"
)

// rateLimit bounds how often something, such as an address, may ask what needs no sign-in. It counts
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

// maxCounts bounds the memory. Beyond it, those that are new in this window share one
// count.
const maxCounts = 50_000

// wait counts a request and returns 0, or how long its sender has to wait.
func (r *rateLimit) wait(sender string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exceeded(sender, 1)
}

// full returns what wait would, without counting.
func (r *rateLimit) full(sender string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exceeded(sender, 0)
}

// exceeded holds mu. A request that was counted may be the last one that is allowed;
// one that was not would be the next.
func (r *rateLimit) exceeded(sender string, add int) time.Duration {
	now := r.now()
	if now.Sub(r.start) >= r.window {
		r.start = now.Truncate(r.window)
		clear(r.counts)
	}
	if _, known := r.counts[sender]; !known && len(r.counts) >= maxCounts {
		sender = ""
	}
	if add > 0 {
		r.counts[sender] += add
	}
	if r.counts[sender]+1-add > r.allowed {
		return r.start.Add(r.window).Sub(now)
	}
	return 0
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
