package record

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// inflight is an event with an idempotency key from when its request has begun to record it until Kafka has answered.
// An event that comes with the same key meanwhile is neither charged nor written, and gets the same answer.
type inflight struct {
	id          schema.ID
	fingerprint uint64
	began       int64 // Unix seconds
	// waiting counts the duplicates that came meanwhile. The cache's mu guards it.
	waiting int
	// completed is closed at the end. It is nil while there are no duplicates, and for an event that was recorded
	// before.
	completed chan struct{}
	// result or err is the outcome, once completed.
	result recorded
	err    error
}

// maxInflight is how long an event counts as in flight: longer than Kafka's client tries to write a record.
const maxInflight = time.Minute

// inflightBlock is how many are allocated at once. None is used twice.
const inflightBlock = 16

// begin claims the key that id is derived from. If mine is true the caller has to complete the event. Else f is that of
// the event with the same key, which is recorded or in flight. A key that is used for another event is a problem.
func (c *idempotencyCache) begin(id schema.ID, fingerprint uint64) (f *inflight, mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(id); known != nil {
		if known.fingerprint != fingerprint {
			return nil, false, errKeyReused()
		}
		return &inflight{result: *known}, false, nil
	}
	now := c.now().Unix()
	if f = c.inflight[id]; f == nil || now >= f.began+int64(maxInflight/time.Second) {
		if len(c.spare) == 0 {
			c.spare = make([]inflight, inflightBlock)
		}
		f, c.spare = &c.spare[0], c.spare[1:]
		f.id, f.fingerprint, f.began = id, fingerprint, now
		c.inflight[id] = f
		return f, true, nil
	}
	if f.fingerprint != fingerprint {
		return nil, false, errKeyReused()
	}
	if f.completed == nil {
		f.completed = make(chan struct{})
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

// complete ends what begin began: the event is cached if Kafka has it, and its duplicates are notified. An event
// without a key is ignored.
func (c *idempotencyCache) complete(e *Event, err error) {
	f := e.inflight
	if f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		f.result = c.add(e)
	}
	f.err = err
	if c.inflight[f.id] == f {
		delete(c.inflight, f.id)
	}
	if f.completed != nil {
		close(f.completed)
	}
}

// wait waits until the event that e repeats is completed, but not longer than the deadline, and gives e its cost.
func (e *Event) wait(deadline time.Time) error {
	f := e.inflight
	if f.completed != nil {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case <-f.completed:
		case <-timer.C:
			return errTimeout
		}
	}
	e.Cost, e.Source, e.PriceID = f.result.cost, f.result.source, f.result.priceID
	return f.err
}

// InFlight returns how many keys are in flight, and how many events wait for them.
func (r *Recorder) InFlight() (keys, waiting int) {
	c := r.keys
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.inflight {
		waiting += f.waiting
	}
	return len(c.inflight), waiting
}
