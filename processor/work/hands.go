package work

import (
	"sync"
	"time"
)

// settledAfter is how long River may take to write down what became of a job. It gives up after some tries; the entry would then
// stay as if somebody worked on it.
const settledAfter = time.Minute

// hands are the entries of the queue that a runner has in hand or has just dropped, by when it dropped them.
type hands struct {
	mu      sync.Mutex
	entries map[int64]time.Time
}

func (h *hands) take(entry int64) { h.set(entry, time.Time{}) }

func (h *hands) drop(entry int64) { h.set(entry, time.Now()) }

func (h *hands) set(entry int64, dropped time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == nil {
		h.entries = map[int64]time.Time{}
	}
	h.entries[entry] = dropped
}

// held returns what is in hand or was dropped less than settled ago, and forgets the rest.
func (h *hands) held(settled time.Duration) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make([]int64, 0, len(h.entries))
	for entry, dropped := range h.entries {
		if !dropped.IsZero() && time.Since(dropped) > settled {
			delete(h.entries, entry)
			continue
		}
		held = append(held, entry)
	}
	return held
}
