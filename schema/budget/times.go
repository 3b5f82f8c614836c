package budget

import (
	"cmp"
	"time"
)

// Times are what ingest and the processor have to agree on, so that what a replica holds is given to others only when nothing of it
// is recorded any more. All processes of an installation use the same; only tests change them.
type Times struct {
	// ValidFor is how long a replica spends its leases, and confirms events that were charged to them, after it sent the last heartbeat
	// that the database confirmed. Defaults to 60s.
	ValidFor time.Duration
	// DeadAfter is how long the database has not seen a replica that is taken for dead. It is longer than ValidFor, by more
	// than clocks differ. Defaults to 120s.
	DeadAfter time.Duration
	// ConfirmWithin is how long after its arrival an event that was charged to a cap is confirmed. Defaults to 10s.
	ConfirmWithin time.Duration
	// LateAfter is how long after its arrival an event was written to Kafka at least whose lease was released and that is refused
	// for this reason. It is longer than ConfirmWithin, by more than clocks differ, and shorter than DeadAfter less
	// ValidFor. Defaults to 30s.
	LateAfter time.Duration
}

// OrDefault returns t with defaults for what is zero.
func (t Times) OrDefault() Times {
	return Times{
		ValidFor:      cmp.Or(t.ValidFor, 60*time.Second),
		DeadAfter:     cmp.Or(t.DeadAfter, 120*time.Second),
		ConfirmWithin: cmp.Or(t.ConfirmWithin, 10*time.Second),
		LateAfter:     cmp.Or(t.LateAfter, 30*time.Second),
	}
}
