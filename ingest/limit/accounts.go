package limit

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/outlayhq/outlay/schema"
)

// accounts are the windows of all accounts that were seen lately. Those known for
// a while are found without a lock; new ones wait under one until settle.
type accounts struct {
	settled atomic.Pointer[map[schema.ID]*meter]

	mu    sync.Mutex
	young map[schema.ID]*meter
}

// meter holds the latest window of an account; there always is one.
type meter struct{ window atomic.Pointer[window] }

func (a *accounts) init() {
	a.settled.Store(&map[schema.ID]*meter{})
	a.young = map[schema.ID]*meter{}
}

// find returns the meter of an account, or nil.
func (a *accounts) find(id schema.ID) *meter {
	if m := (*a.settled.Load())[id]; m != nil {
		return m
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.young[id]
}

// roll puts the account's next window in force, and returns it and whether it is
// new: another request may have been faster.
func (a *accounts) roll(id schema.ID, next func() *window) (w *window, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := (*a.settled.Load())[id]
	if m == nil {
		m = a.young[id]
	}
	w = next()
	if m == nil {
		m = &meter{}
		a.young[id] = m
	} else if old := m.window.Load(); old.limit == w.limit && (old.start == w.start || old.start == w.start+windowSeconds) {
		// The clock may have been set back a little: a window does not come twice.
		return old, false
	} else if old.start == w.start {
		w.inherit(old)
	}
	m.window.Store(w)
	return w, true
}

// settle moves the new accounts to the others, and forgets those whose last window
// started before oldest.
func (a *accounts) settle(oldest int64) (size int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	merged := maps.Clone(*a.settled.Load())
	maps.Copy(merged, a.young)
	maps.DeleteFunc(merged, func(_ schema.ID, m *meter) bool { return m.window.Load().start < oldest })
	clear(a.young)
	a.settled.Store(&merged)
	return len(merged)
}

// waiting reports whether there are new accounts to settle.
func (a *accounts) waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.young) > 0
}

// windows returns the latest window of every settled account.
func (a *accounts) windows() []*window {
	var all []*window
	for _, m := range *a.settled.Load() {
		all = append(all, m.window.Load())
	}
	return all
}
