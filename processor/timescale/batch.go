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
	// Dead is the reason why the record cannot be stored, or nil.
	Dead *DeadLetter
	// Late is set when the record was written to Kafka so long after the event arrived that its client has surely no
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

// bucketSeconds is a quarter of an hour, the bucket of spend and of usage_15m.
const bucketSeconds = 15 * 60

// bucketOf returns the start of t's quarter of an hour in Unix seconds.
func bucketOf(t time.Time) int64 {
	s := t.Unix()
	return s - ((s%bucketSeconds)+bucketSeconds)%bucketSeconds
}

// newSpans returns where each partition stands before and after the batch.
func newSpans() *group[Span] {
	return newGroup("spans", []column[Span]{
		// A span moves one row of kafka_offsets from first to next.
		{"partition", typeInt4, func(a *array, s *Span) { a.int4(s.Partition) }},
		{"first", typeInt8, func(a *array, s *Span) { a.int8(s.First) }},
		{"next", typeInt8, func(a *array, s *Span) { a.int8(s.Next) }},
	})
}

// newKeys returns the columns of table event_keys.
func newKeys() *group[eventKey] {
	return newGroup("keys", []column[eventKey]{
		{"account_id", typeUUID, func(a *array, k *eventKey) { a.id(k.AccountID) }},
		{"event_id", typeUUID, func(a *array, k *eventKey) { a.id(k.EventID) }},
	})
}

// newDead returns the columns of table dead_letters.
func newDead() *group[Item] {
	return newGroup("dead", []column[Item]{
		{"partition", typeInt4, func(a *array, i *Item) { a.int4(i.Partition) }},
		{`"offset"`, typeInt8, func(a *array, i *Item) { a.int8(i.Offset) }},
		// The record itself stays in Kafka; account and time are null where it could not be read.
		{"reason", typeText, func(a *array, i *Item) { a.text(string(i.Dead.Reason)) }},
		{"sqlstate", typeText, func(a *array, i *Item) { a.optionalText(i.Dead.SQLState) }},
		{"account_id", typeUUID, func(a *array, i *Item) { a.optionalID(i.Event.AccountID) }},
		{"received_at", typeTimestamptz, func(a *array, i *Item) { a.optionalTime(i.Event.ReceivedAt) }},
	})
}
