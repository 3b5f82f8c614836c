package record

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failureAge is how long a failed write makes the replica not ready if none has succeeded since. After it requests
	// are let in again: without any the replica would not notice that Kafka takes events again.
	failureAge = 15 * time.Second
	// failureLogInterval is how often failed writes are logged at most.
	failureLogInterval = 10 * time.Second
)

// writeHealth keeps how the last writes to Kafka went, for readiness and for the log.
type writeHealth struct {
	log *slog.Logger
	now func() time.Time
	// failure is nil if the last write that ended has succeeded.
	failure atomic.Pointer[failure]

	mu sync.Mutex
	// logged is when failures were logged last, pending how many requests failed since.
	logged  time.Time
	pending int
}

type failure struct {
	err error
	at  time.Time
}

// succeeded notes that Kafka acknowledged all events of a request.
func (w *writeHealth) succeeded() {
	if w.failure.Load() != nil { // Rarely: otherwise every request would write to shared memory.
		w.failure.Store(nil)
	}
}

// failed notes that Kafka did not acknowledge an event of a request, and logs it now
// and then.
func (w *writeHealth) failed(err error) {
	now := w.now()
	w.failure.Store(&failure{err, now})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending++
	if now.Sub(w.logged) < failureLogInterval {
		return
	}
	w.log.Warn("events not recorded, clients were asked to send them again", "requests", w.pending, "error", err)
	w.logged, w.pending = now, 0
}

// Ready returns nil unless the last write has failed, not long ago.
func (w *writeHealth) Ready() error {
	if f := w.failure.Load(); f != nil && w.now().Sub(f.at) < failureAge {
		return fmt.Errorf("kafka does not take events: %w", f.err)
	}
	return nil
}
