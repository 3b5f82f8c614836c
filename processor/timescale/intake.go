package timescale

import (
	"cmp"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// intakeKey is one row of intake: an account's hour of arrival.
type intakeKey struct {
	account schema.ID
	hour    int64 // Unix seconds
}

func (k intakeKey) compare(other intakeKey) int {
	return cmp.Or(compareIDs(k.account, other.account), cmp.Compare(k.hour, other.hour))
}

// intakeSum is what a batch holds of an hour. How many of the accepted are stored is
// not here: the database counts the rows that it inserts.
type intakeSum struct {
	accepted, duplicates, dead, refused int64
	// first and last are the times of the events to be stored; zero: there are none.
	first, last time.Time
}

// storing widens the time in which the stored events are found.
func (s *intakeSum) storing(t time.Time) {
	if s.first.IsZero() || t.Before(s.first) {
		s.first = t
	}
	if s.last.IsZero() || t.After(s.last) {
		s.last = t
	}
}

// intake counts the records of a batch and what becomes of them.
type intake struct {
	sums tally[intakeKey, intakeSum]
	// latest is the sum that was asked for last: records that come together arrived
	// together.
	latestKey intakeKey
	latest    *intakeSum
}

// reset forgets the batch before and keeps its memory.
func (n *intake) reset() {
	clear(n.sums)
	n.latest = nil
}

// accept counts a record and returns the sum of its hour, for what becomes of it.
func (n *intake) accept(item *Item) *intakeSum {
	const hourSeconds = 60 * 60
	s := item.Event.ReceivedAt.Unix()
	k := intakeKey{item.Event.AccountID, s - (s%hourSeconds+hourSeconds)%hourSeconds}
	if n.latest == nil || k != n.latestKey {
		n.latestKey, n.latest = k, n.sums.at(k)
	}
	n.latest.accepted++
	return n.latest
}

type intakeRow = entry[intakeKey, intakeSum]

// newIntake returns the columns of table intake, but for those that the database counts.
func newIntake() *group[intakeRow] {
	return newGroup("intake", []column[intakeRow]{
		{"account_id", typeUUID, func(a *array, r *intakeRow) { a.id(r.key.account) }},
		{"hour", typeTimestamptz, func(a *array, r *intakeRow) { a.seconds(r.key.hour) }},
		// accepted is the sum of the other counts and of the rows that the database inserts, or the batch is refused.
		{"accepted", typeInt8, func(a *array, r *intakeRow) { a.int8(r.sum.accepted) }},
		{"duplicates", typeInt8, func(a *array, r *intakeRow) { a.int8(r.sum.duplicates) }},
		{"dead_letters", typeInt8, func(a *array, r *intakeRow) { a.int8(r.sum.dead) }},
		{"refused_late", typeInt8, func(a *array, r *intakeRow) { a.int8(r.sum.refused) }},
		{"first_ts", typeTimestamptz, func(a *array, r *intakeRow) { a.optionalTime(r.sum.first) }},
		{"last_ts", typeTimestamptz, func(a *array, r *intakeRow) { a.optionalTime(r.sum.last) }},
	})
}
