package usage

import (
	"errors"
	"time"
)

// Unit is the length of a bucket on the clock of a time zone.
type Unit int

// The units.
const (
	Hour Unit = iota
	Day
)

// MaxBuckets bounds how many buckets an answer may have.
const MaxBuckets = 10_000

// ErrTooManyRows is returned for a question whose answer has more than MaxBuckets
// rows.
var ErrTooManyRows = errors.New("more than 10000 rows")

// Buckets returns the bounds of the buckets that cover from to to in the zone of
// loc: n buckets have n+1 bounds. The first bucket holds from and the last one
// the moment before to, so the ends are widened to whole buckets. A day lasts from
// one local midnight to the next, be that 23, 24 or 25 hours; an hour from one full
// local hour to the next, which a change of the clock may make shorter. It returns ErrTooManyRows for more than MaxBuckets.
func Buckets(unit Unit, from, to time.Time, loc *time.Location) ([]time.Time, error) {
	next := nextHour
	start := hourStart(from.In(loc))
	if unit == Day {
		next = nextDay
		start = dayStart(from.In(loc))
	}
	bounds := []time.Time{start}
	for t := start; t.Before(to); {
		if len(bounds) > MaxBuckets {
			return nil, ErrTooManyRows
		}
		t = next(t)
		bounds = append(bounds, t)
	}
	return bounds, nil
}

// hourStart returns the start of the local hour of t. An hour also starts when the
// clock strikes one and is changed at that very moment; a change within an hour
// starts none.
func hourStart(t time.Time) time.Time {
	start := t.Add(-intoHour(t))
	changed, _ := t.ZoneBounds()
	if changed.IsZero() || !start.Before(changed) {
		return start
	}
	if before := changed.Add(-1); intoHour(before) != time.Hour-1 {
		return hourStart(before)
	}
	return changed
}

// nextHour returns the start of the hour after that which starts at t.
func nextHour(t time.Time) time.Time {
	next := t.Add(time.Hour - intoHour(t))
	_, changes := t.ZoneBounds()
	if changes.IsZero() || !changes.Before(next) {
		return next
	}
	if intoHour(changes) == 0 {
		return changes
	}
	return changes.Add(time.Hour - intoHour(changes))
}

// quarter is the finest bucket that is stored. Every offset of a time zone since
// 2000 is a multiple of it.
const quarter = 15 * time.Minute

func intoHour(t time.Time) time.Duration {
	return time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// dayStart returns the first moment of the local day of t. It is not always
// midnight: the clock may skip midnight, or strike it twice.
func dayStart(t time.Time) time.Time {
	year, month, day := t.Date()
	for {
		midnight := t.Add(-time.Duration(t.Hour())*time.Hour - intoHour(t))
		changed, _ := t.ZoneBounds()
		if changed.IsZero() || changed.Before(midnight) {
			return midnight
		}
		// The clock was changed since midnight. The day began before that, if the
		// moment before the change belongs to it.
		before := changed.Add(-1)
		if y, m, d := before.Date(); y != year || m != month || d != day {
			return changed
		}
		t = before
	}
}

// nextDay returns the first moment of the local day after that of t. A zone may
// skip a whole date, as Samoa did; then it is the day after.
func nextDay(t time.Time) time.Time {
	year, month, day := t.Date()
	for n := 1; ; n++ {
		noon := time.Date(year, month, day+n, 12, 0, 0, 0, t.Location())
		if start := dayStart(noon); start.After(t) {
			return start
		}
	}
}
