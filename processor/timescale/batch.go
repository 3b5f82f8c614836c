package timescale

import (
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Item is one Kafka record of a batch.
type Item struct {
	Partition int32
	Offset    int64
	// Event is what the record holds. It is not stored when Dead is set.
	Event schema.Event
	// Dead says why the record cannot be stored, or is nil.
	Dead *DeadLetter
	// Late says that the record was written to Kafka so long after the event arrived that its client has surely no
	// confirmation. If one of its leases was given up before it was written, it is refused.
	Late bool
}

// DeadLetter is why a record was put aside.
type DeadLetter struct {
	// Reason is from a closed list: it is a metric's label.
	Reason Reason
	// Detail is for people. It holds nothing of the record.
	Detail string
	// SQLState is the database's error code, if the database refused the event.
	SQLState string
}

// Reason is why a record was put aside.
type Reason string

// The reasons.
const (
	ReasonNotEvent Reason = "not_an_event"
	ReasonVersion  Reason = "unsupported_version"
	ReasonRefused  Reason = "refused_by_database"
)

// Span is what a batch holds of one partition: the offsets from First up to,
// but not including, Next, without a gap.
type Span struct {
	Partition   int32
	First, Next int64
}

// Result is what Save did with the records of a batch.
type Result struct {
	Stored, Duplicates, Dead int
	// RefusedLate are events that were written after their lease was given to others.
	RefusedLate int
}

// spendKey is one row of spend: an agent's quarter of an hour by arrival.
type spendKey struct {
	account schema.ID
	agent   string
	bucket  int64 // Unix seconds
}

type spendSum struct {
	cost   schema.Sum
	events int64
}

// leaseSum is what the events of a batch used of a lease, and the part of it that
// is stored: duplicates are not.
type leaseSum struct{ used, stored schema.Sum }

const bucketSeconds = 15 * 60

// bucketOf returns the start of t's quarter of an hour in Unix seconds.
func bucketOf(t time.Time) int64 {
	s := t.Unix()
	return s - ((s%bucketSeconds)+bucketSeconds)%bucketSeconds
}
