package usage

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Time is a time that is written in UTC with microseconds at most.
type Time struct{ time.Time }

// ScanTimestamptz reads a timestamptz column; NULL and the infinities are the
// zero Time.
func (t *Time) ScanTimestamptz(v pgtype.Timestamptz) error {
	t.Time = time.Time{}
	if v.Valid && v.InfinityModifier == pgtype.Finite {
		t.Time = v.Time.UTC()
	}
	return nil
}

// String returns the time as RFC 3339 in UTC.
func (t Time) String() string { return t.micros().Format(time.RFC3339Nano) }

// micros is t in UTC without what is less than a microsecond. RFC3339Nano writes as many
// decimals as there are, and is the layout that package time knows by heart.
func (t Time) micros() time.Time { return t.UTC().Truncate(time.Microsecond) }

// MarshalJSON writes the time as RFC 3339 in UTC; the zero Time is null.
func (t Time) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// AppendJSON appends what MarshalJSON returns to dst.
func (t Time) AppendJSON(dst []byte) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return append(t.micros().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}

// AllTime returns the times between which a question may lie: from 2000, since
// when the offset of every time zone is a whole number of quarter hours.
func AllTime() (from, to time.Time) {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
}
