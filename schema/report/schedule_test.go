package report

import (
	"testing"
	"time"
)

// A schedule is due at six in the morning after each week or month of its zone, and then asks for the one that has ended; also
// where the clock is changed, or midnight does not exist.
func TestSchedulesAreDueAfterThePeriod(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		frequency      Frequency
		zone, now      string
		next, from, to string
	}{
		{Monthly, "UTC", "2026-11-21T12:00:00Z", "2026-12-01T06:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{Monthly, "UTC", "2026-12-01T05:59:59Z", "2026-12-01T06:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{Monthly, "UTC", "2026-12-01T06:00:00Z", "2027-01-01T06:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{Weekly, "UTC", "2026-11-21T12:00:00Z", "2026-11-23T06:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{Weekly, "Asia/Kolkata", "2026-11-21T12:00:00Z", "2026-11-23T00:30:00Z", "2026-11-15T18:30:00Z", "2026-11-22T18:30:00Z"},
		// The week in which Europe puts its clocks back has 169 hours.
		{Weekly, "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T05:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{Monthly, "America/New_York", "2026-02-10T00:00:00Z", "2026-03-01T11:00:00Z", "2026-02-01T05:00:00Z", "2026-03-01T05:00:00Z"},
		// Beirut puts its clocks forward at midnight.
		{Monthly, "Asia/Beirut", "2026-03-10T00:00:00Z", "2026-04-01T03:00:00Z", "2026-02-28T22:00:00Z", "2026-03-31T21:00:00Z"},
	} {
		s := Schedule{Frequency: tc.frequency, Timezone: tc.zone}
		now, err := time.Parse(time.RFC3339, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		if s.NextAt, err = s.Next(now); err != nil {
			t.Fatal(err)
		}
		r := s.Request()
		got := [3]string{s.NextAt.Format(time.RFC3339), r.From.Format(time.RFC3339), r.To.Format(time.RFC3339)}
		if want := [3]string{tc.next, tc.from, tc.to}; got != want {
			t.Errorf("%s in %s at %s: due at, from, to = %v, want %v", tc.frequency, tc.zone, tc.now, got, want)
		}
	}
}

// Every week of ten years is reported once, in any zone.
func TestSchedulesLeaveNothingOut(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/London", "Pacific/Apia", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		for _, frequency := range []Frequency{Weekly, Monthly} {
			s := Schedule{Frequency: frequency, Timezone: zone, NextAt: time.Date(2020, 1, 10, 0, 0, 0, 0, time.UTC)}
			var end time.Time
			for s.NextAt.Year() < 2030 {
				next, err := s.Next(s.NextAt)
				if err != nil {
					t.Fatal(err)
				}
				s.NextAt = next
				r := s.Request()
				if !end.IsZero() && !r.From.Equal(end) {
					t.Fatalf("%s in %s: a period begins at %v, the one before ended at %v", frequency, zone, r.From, end)
				}
				if end = r.To; end.After(s.NextAt) {
					t.Fatalf("%s in %s: due at %v, before its period ends at %v", frequency, zone, s.NextAt, end)
				}
			}
		}
	}
}
