package catalogue

import (
	"fmt"
	"time"
)

// Date is the instant a price starts: a day in UTC ("2025-06-10"), or an RFC 3339 time where a change fell into a day.
type Date struct{ time.Time }

// UnmarshalText reads either form.
func (d *Date) UnmarshalText(b []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, string(b)); err == nil && t.Year() >= 1970 {
			d.Time = t.UTC()
			return nil
		}
	}
	return fmt.Errorf("%q is neither a date nor an RFC 3339 time", clip(string(b)))
}

// MarshalText writes the shorter form that is exact.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads a JSON string; it hides the method of time.Time, which takes RFC 3339 only.
func (d *Date) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("%q is not a date", clip(string(b)))
	}
	return d.UnmarshalText(b[1 : len(b)-1])
}

// MarshalJSON writes a JSON string.
func (d Date) MarshalJSON() ([]byte, error) { return []byte(`"` + d.String() + `"`), nil }

// String is the date, with the time only where it is not midnight UTC; the zero Date is empty.
func (d Date) String() string {
	switch {
	case d.IsZero():
		return ""
	case d.Truncate(24 * time.Hour).Equal(d.Time):
		return d.Format(time.DateOnly)
	default:
		return d.UTC().Format(time.RFC3339)
	}
}

// Clock is a time of day in UTC, in minutes after midnight.
type Clock int

// UnmarshalText reads "15:04".
func (c *Clock) UnmarshalText(b []byte) error {
	t, err := time.Parse("15:04", string(b))
	if err != nil || len(b) != len("15:04") {
		return fmt.Errorf("%q is not a time of day like 16:30", clip(string(b)))
	}
	*c = Clock(t.Hour()*60 + t.Minute())
	return nil
}

// MarshalText writes "15:04".
func (c Clock) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String is the time of day as "15:04".
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }
