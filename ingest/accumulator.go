package ingest

import (
	"sync"
	"sync/atomic"
	"time"
)

// accumulator lets events wait for others, to be written to Kafka together: those that
// come while earlier ones are under way, or wait. Each waits for the linger at most, and
// on an idle machine for up to a millisecond more, which is what Go's timers are exact
// to. An event that is alone goes at once.
//
// Kafka's client has up to five requests to a broker under way and puts into each what
// is there: at half of the highest rate that is two or three events. Its own linger
// would keep an event waiting that is alone, too.
type accumulator struct {
	linger time.Duration
	send   func(*delivery)

	// underway is how many are sent, of requests that have some not settled.
	underway atomic.Int64

	mu      sync.Mutex
	waiting []*delivery
	spare   []*delivery // the memory of those that waited before
	timer   *time.Timer // runs while some wait
}

func newAccumulator(linger time.Duration, send func(*delivery)) *accumulator {
	a := &accumulator{linger: linger, send: send}
	a.timer = time.AfterFunc(time.Hour, a.flush)
	a.timer.Stop()
	return a
}

// add sends the events of a request, now or soon.
func (a *accumulator) add(deliveries []*delivery) {
	if len(deliveries) == 0 || a.wait(deliveries) {
		return
	}
	for _, d := range deliveries {
		a.send(d)
	}
}

// wait reports whether the events wait; else they are counted as under way. Those of a
// request stay in order; requests that are not answered yet may overtake each other.
func (a *accumulator) wait(deliveries []*delivery) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		if a.linger == 0 || a.underway.Load() == 0 {
			a.underway.Add(int64(len(deliveries)))
			return false
		}
		a.timer.Reset(a.linger)
	}
	a.waiting = append(a.waiting, deliveries...)
	return true
}

// flush sends those that wait.
func (a *accumulator) flush() {
	a.mu.Lock()
	deliveries := a.waiting
	a.waiting, a.spare = a.spare[:0], nil
	a.underway.Add(int64(len(deliveries)))
	a.mu.Unlock()
	for _, d := range deliveries {
		a.send(d)
	}
	clear(deliveries)
	a.mu.Lock()
	a.spare = deliveries[:0]
	a.mu.Unlock()
}

// finished counts the n events of a request, all of which are settled.
func (a *accumulator) finished(n int) { a.underway.Add(int64(-n)) }
