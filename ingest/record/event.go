package record

import (
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
)

// Event is one event of a request and what became of it. The caller sets the first fields; Record sets the others.
type Event struct {
	*schema.Event
	// Fingerprint is that of what the client sent, made with Recorder.Seed, for an event with an idempotency key.
	Fingerprint uint64
	// Invalid is why the event cannot be recorded. One that repeats a recorded event is a duplicate all the same.
	Invalid error
	// Warnings are sent to the client if the event is recorded.
	Warnings schema.Faults

	// Err is why the event is not recorded, or not certainly. The caller sets it for an event that could not be read,
	// which has no Event.
	Err error
	// Duplicate is true for an event that was recorded before, or whose original is being recorded.
	Duplicate bool

	charge   *lease.Charge
	inflight *inflight // of the key, nil without one
}

// Cap returns the state of the tightest of the caps that a new event was charged to. ok is false without one.
func (e *Event) Cap() (state lease.Standing, ok bool) { return e.charge.Standing() }

// toWrite reports whether the event is to be written to Kafka.
func (e *Event) toWrite() bool { return e.Err == nil && !e.Duplicate }
