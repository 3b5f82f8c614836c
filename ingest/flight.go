package ingest

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// flight is an event with an idempotency key from when its request has claimed the
// key until Kafka has answered. Who comes with the same key meanwhile is charged
// and writes nothing, and is answered as the flight ends.
type flight struct {
	id          schema.ID
	fingerprint uint64
	began       int64 // Unix seconds
	// waiting is how many have come since. recent's mu guards it.
	waiting int
	// landed is closed at the end. It is nil while nobody has come, and for a flight
	// that had ended before it was asked for.
	landed chan struct{}
	// outcome or err is what came of it, once landed.
	outcome remembered
	err     error
}

// flightFor is how long a flight is waited for: longer than Kafka's client tries to
// write a record.
const flightFor = time.Minute

// spareFlights is how many flights are made at once. None is used twice.
const spareFlights = 16

// claim says whether the key that id stands for is the caller's, who then has to
// land the flight. Else the flight is that of the event with the key, which has
// ended or is under way. A key that is used for something else is a problem.
func (r *recent) claim(id schema.ID, fingerprint uint64) (f *flight, mine bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.find(id); m != nil {
		if m.fingerprint != fingerprint {
			return nil, false, errKeyReused()
		}
		return &flight{outcome: *m}, false, nil
	}
	now := r.now().Unix()
	if f = r.flights[id]; f == nil || now >= f.began+int64(flightFor/time.Second) {
		if len(r.spare) == 0 {
			r.spare = make([]flight, spareFlights)
		}
		f, r.spare = &r.spare[0], r.spare[1:]
		f.id, f.fingerprint, f.began = id, fingerprint, now
		r.flights[id] = f
		return f, true, nil
	}
	if f.fingerprint != fingerprint {
		return nil, false, errKeyReused()
	}
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	f.waiting++
	return f, false, nil
}

func errKeyReused() error {
	return problem.FromFaults(schema.Faults{{
		Field:   "idempotency_key",
		Message: "was used for another event before; use a new key for each event, and the same only to send that event again",
	}})
}

// land ends the flight of an event: it is remembered if Kafka has it, and those who
// wait are notified. An event without a key has no flight.
func (r *recent) land(a admission, err error) {
	if a.flight == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		a.flight.outcome = r.remember(a)
	}
	a.flight.err = err
	if r.flights[a.flight.id] == a.flight {
		delete(r.flights, a.flight.id)
	}
	if a.flight.landed != nil {
		close(a.flight.landed)
	}
}

// follow waits until the event that a duplicate repeats has landed, but not longer
// than the deadline, and makes the answer the same.
func (a *admission) follow(deadline time.Time) error {
	f := a.flight
	if err := f.await(deadline); err != nil {
		return err
	}
	a.event.Cost, a.event.Source, a.event.PriceID = f.outcome.cost, f.outcome.source, f.outcome.priceID
	return nil
}

func (f *flight) await(deadline time.Time) error {
	if f.landed == nil {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-f.landed:
		return f.err
	case <-timer.C:
		return ErrTimeout
	}
}
