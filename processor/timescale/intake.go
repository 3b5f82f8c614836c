package timescale

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// intakeKey is one row of intake: an account's hour of arrival.
type intakeKey struct {
	account schema.ID
	hour    int64 // Unix seconds
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
	sums map[intakeKey]*intakeSum
	// latest is the sum that was asked for last: records that come together arrived
	// together.
	latestKey intakeKey
	latest    *intakeSum

	account, hour, accepted, duplicates, dead, first, last, refused column
}

// columns are parameters of saveBatch with their element types. refused is another, which comes later.
func (n *intake) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&n.account, pgtype.UUIDOID) &&
			yield(&n.hour, pgtype.TimestamptzOID) &&
			yield(&n.accepted, pgtype.Int8OID) &&
			yield(&n.duplicates, pgtype.Int8OID) &&
			yield(&n.dead, pgtype.Int8OID) &&
			yield(&n.first, pgtype.TimestamptzOID) &&
			yield(&n.last, pgtype.TimestamptzOID)
	}
}

func (n *intake) reset() {
	if n.sums == nil {
		n.sums = map[intakeKey]*intakeSum{}
	}
	clear(n.sums)
	n.latest = nil
	for c, elementType := range n.columns() {
		c.reset(elementType)
	}
	n.refused.reset(pgtype.Int8OID)
}

// accept counts a record and returns the sum of its hour, for what becomes of it.
func (n *intake) accept(item *Item) *intakeSum {
	const hourSeconds = 60 * 60
	s := item.Event.ReceivedAt.Unix()
	k := intakeKey{item.Event.AccountID, s - (s%hourSeconds+hourSeconds)%hourSeconds}
	if n.latest == nil || k != n.latestKey {
		sum := n.sums[k]
		if sum == nil {
			sum = &intakeSum{}
			n.sums[k] = sum
		}
		n.latestKey, n.latest = k, sum
	}
	n.latest.accepted++
	return n.latest
}

// encode adds the sums in a fixed order, so that two batches never wait for each
// other's rows in a circle.
func (n *intake) encode() {
	keys := make([]intakeKey, 0, len(n.sums))
	for k := range n.sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b intakeKey) int {
		return cmp.Or(slices.Compare(a.account[:], b.account[:]), cmp.Compare(a.hour, b.hour))
	})
	for _, k := range keys {
		s := n.sums[k]
		n.account.id(k.account)
		n.hour.time(time.Unix(k.hour, 0))
		n.accepted.int8(s.accepted)
		n.duplicates.int8(s.duplicates)
		n.dead.int8(s.dead)
		n.refused.int8(s.refused)
		n.first.optionalTime(s.first)
		n.last.optionalTime(s.last)
	}
}
