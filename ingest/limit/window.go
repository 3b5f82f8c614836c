package limit

import (
	"sync"
	"sync/atomic"

	"github.com/outlayhq/outlay/schema"
)

// verdict is what became of a request to take events.
type verdict int

const (
	allowed   verdict = iota
	local             // allowed from the replica's own share while the database is away
	refused           // more than is left
	undecided         // the database has to be asked
	verdicts
)

// window is one minute of one account as this replica knows it.
type window struct {
	account schema.ID
	start   int64 // Unix seconds
	limit   int64
	// chunk is how much the database is asked for at a time. It is 0 for limits so
	// small that every event is asked for by itself.
	chunk int64

	// hand is what this replica may let through without asking.
	hand atomic.Int64
	// rest is what can be left besides, at most: bank - owed.
	rest atomic.Int64
	// asking is call != nil.
	asking atomic.Bool

	mu sync.Mutex
	// bank is what the database had left at its last answer.
	bank int64
	// owed is what this replica has taken without the database knowing yet.
	owed int64
	call *call
}

// call is a call to the database about one window. Requests join it until it is
// sent, and wait for its end.
type call struct {
	done chan struct{}
	sent bool
	// need is the smallest request that waits, want what all of them lack and a
	// chunk.
	need, want int64
}

// newWindow returns a window whose first chunk is taken on credit.
func newWindow(account schema.ID, start, limit, chunk int64) *window {
	w := &window{account: account, start: start, limit: limit, chunk: chunk, bank: limit, owed: chunk}
	w.hand.Store(chunk)
	w.rest.Store(limit - chunk)
	return w
}

// inherit takes over from the same window under another limit. Of what a larger
// plan had in hand only a chunk of the new one stays.
func (w *window) inherit(old *window) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.owed = old.owed
	w.hand.Store(min(old.hand.Swap(0), w.chunk))
	w.rest.Store(w.bank - w.owed)
}

// take takes n of the hand, and returns what it has left.
func (w *window) take(n int64) (left int64, ok bool) {
	for {
		hand := w.hand.Load()
		if hand < n {
			return hand, false
		}
		if w.hand.CompareAndSwap(hand, hand-n) {
			return hand - n, true
		}
	}
}

// decide decides about n events that the hand did not have. With undecided it
// returns the call to wait for, and whether the caller has to have it made.
func (w *window) decide(n int64, p part) (v verdict, c *call, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, ok := w.take(n)
	if ok {
		return allowed, nil, false
	}
	if p.away {
		return w.borrow(n, p), nil, false
	}
	lacks := n - max(0, left)
	if lacks > w.bank-w.owed {
		return refused, nil, false
	}
	if w.call == nil {
		w.begin(lacks, w.chunk)
		mine = true
	}
	if !w.call.sent {
		w.call.need = min(w.call.need, lacks)
		w.call.want += lacks
	}
	return undecided, w.call, mine
}

// owes reports whether the database has yet to hear of events that were let through.
func (w *window) owes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owed > 0
}

// borrow takes n events without asking, from this replica's share of what was left
// when the database last answered. Holds mu.
func (w *window) borrow(n int64, p part) verdict {
	if w.owed+n > w.share(p) {
		return refused
	}
	w.owed += n
	w.rest.Store(w.bank - w.owed)
	return local
}

// part is what a replica may use without asking while the database is away.
type part struct {
	away bool
	// replicas share what was left equally; permille of its share is free to use.
	replicas, permille int64
}

// share is what may be taken without asking. Holds mu.
func (w *window) share(p part) int64 {
	if w.bank <= 0 {
		return 0
	}
	return max(1, w.bank/p.replicas*p.permille/1000)
}

// remaining is what this replica can still let through while the database is
// away.
func (w *window) remaining(p part) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.hand.Load()) + max(0, w.share(p)-w.owed)
}

// open starts a call that nobody waits for. It returns false if one is under way.
func (w *window) open(want int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call != nil {
		return false
	}
	w.begin(0, want)
	return true
}

// begin starts a call. Holds mu.
func (w *window) begin(need, want int64) {
	w.call = &call{done: make(chan struct{}), need: need, want: want}
	w.asking.Store(true)
}

// send closes the call to newcomers and returns what to ask.
func (w *window) send() ask {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call.sent = true
	return ask{w, w.owed, w.call.need, w.call.want}
}

// granted takes in the answer of the database.
func (w *window) granted(a ask, g grant) {
	w.mu.Lock()
	w.owed -= a.owed
	w.bank = max(0, g.remaining)
	w.hand.Add(g.granted)
	w.rest.Store(w.bank - w.owed)
	w.mu.Unlock()
	w.finish()
}

// finish ends the call under way and wakes those who wait for it.
func (w *window) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.call.done)
	w.call = nil
	w.asking.Store(false)
}

// inDebt reports whether the database has to be notified of something.
func (w *window) inDebt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owed > 0
}
