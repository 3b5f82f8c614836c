package budget_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones of its own

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

func parseTime(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A period starts and ends when the clock on the wall says so, wherever the clock
// is half an hour off, put forward, put back, or has no midnight at all.
func TestWindowFollowsTheClockOnTheWall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone       string
		period     budget.Period
		at         string
		start, end string
	}{
		{"UTC", budget.Day, "2026-03-31T23:59:59.999999Z", "2026-03-31T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"UTC", budget.Day, "2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-04-02T00:00:00Z"},
		{"UTC", budget.Week, "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"UTC", budget.Week, "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"UTC", budget.Week, "2026-01-01T12:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"UTC", budget.Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"UTC", budget.Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", budget.Total, "2026-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "9999-01-01T00:00:00Z"},
		// Half an hour off: the day starts at 18:30 UTC.
		{"Asia/Kolkata", budget.Day, "2026-03-31T18:29:59Z", "2026-03-30T18:30:00Z", "2026-03-31T18:30:00Z"},
		{"Asia/Kolkata", budget.Day, "2026-03-31T18:30:00Z", "2026-03-31T18:30:00Z", "2026-04-01T18:30:00Z"},
		{"Asia/Kolkata", budget.Month, "2026-03-31T18:30:00Z", "2026-03-31T18:30:00Z", "2026-04-30T18:30:00Z"},
		{"Asia/Kathmandu", budget.Day, "2026-03-31T18:15:00Z", "2026-03-31T18:15:00Z", "2026-04-01T18:15:00Z"},
		// The clock is put forward: 23 hours, and a week and a month that are an hour short.
		{"America/New_York", budget.Day, "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"America/New_York", budget.Day, "2026-03-08T04:59:59Z", "2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z"},
		{"America/New_York", budget.Week, "2026-03-08T12:00:00Z", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"America/New_York", budget.Month, "2026-03-08T12:00:00Z", "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"},
		// The clock is put back: 25 hours.
		{"America/New_York", budget.Day, "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"America/New_York", budget.Day, "2026-11-01T06:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"America/New_York", budget.Day, "2026-11-02T05:00:00Z", "2026-11-02T05:00:00Z", "2026-11-03T05:00:00Z"},
		// Midnight is skipped: the day starts at one.
		{"America/Sao_Paulo", budget.Day, "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		{"America/Sao_Paulo", budget.Day, "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"Asia/Beirut", budget.Day, "2026-03-28T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		// Midnight comes twice: the day starts with the first, which is before the change.
		{"America/Havana", budget.Day, "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"Asia/Amman", budget.Day, "2021-10-28T21:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{"Asia/Amman", budget.Day, "2021-10-28T22:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		// The last hour of a day comes twice.
		{"Asia/Beirut", budget.Day, "2026-10-24T21:30:00Z", "2026-10-23T21:00:00Z", "2026-10-24T22:00:00Z"},
		// A whole date is skipped.
		{"Pacific/Apia", budget.Day, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", budget.Day, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		// A zone that this machine does not know counts as UTC.
		{"Mars/Olympus", budget.Day, "2026-03-31T12:00:00Z", "2026-03-31T00:00:00Z", "2026-04-01T00:00:00Z"},
	} {
		b := budget.Budget{Period: c.period, Timezone: c.zone}
		got := b.Window(parseTime(t, c.at))
		want := budget.Window{Start: parseTime(t, c.start), End: parseTime(t, c.end)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the %s of %s in %s (-want +got):\n%s", c.period, c.at, c.zone, diff)
		}
	}
}

// zones are those that draw the hardest: every continent, halves and quarters of
// an hour, changes at and around midnight, whole dates skipped.
var zones = []string{
	"UTC", "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Havana", "America/New_York", "America/Nuuk",
	"America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns", "Antarctica/Troll", "Asia/Amman",
	"Asia/Beirut", "Asia/Damascus", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Tehran", "Atlantic/Azores",
	"Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham",
	"Pacific/Fakaofo", "Pacific/Kiritimati",
}

// Periods tile time: every moment lies in exactly one, and where one ends the next
// begins, in any zone.
func TestWindowsTileTime(t *testing.T) {
	t.Parallel()
	first, last := parseTime(t, "2000-01-01T00:00:00Z"), parseTime(t, "2060-01-01T00:00:00Z")
	rapid.Check(t, func(t *rapid.T) {
		b := budget.Budget{
			Period:   rapid.SampledFrom([]budget.Period{budget.Day, budget.Week, budget.Month}).Draw(t, "period"),
			Timezone: rapid.SampledFrom(zones).Draw(t, "zone"),
		}
		location, err := time.LoadLocation(b.Timezone)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(first.Unix(), last.Unix()).Draw(t, "at"), 0)
		if _, changes := at.In(location).ZoneBounds(); !changes.IsZero() && rapid.Bool().Draw(t, "near a change") {
			at = changes.Add(time.Duration(rapid.IntRange(-26*60, 26*60).Draw(t, "minutes")) * time.Minute)
		}
		mustTile(t, &b, at)
	})
}

// mustTile checks the period of at against itself and its neighbours.
func mustTile(t interface{ Fatalf(string, ...any) }, b *budget.Budget, at time.Time) {
	w := b.Window(at)
	if !w.Contains(at) {
		t.Fatalf("%s is not in its %s in %s, from %s to %s", at.UTC(), b.Period, b.Timezone, w.Start, w.End)
	}
	if got := b.Window(w.Start); got != w {
		t.Fatalf("the start of %v is in %v", w, got)
	}
	if got := b.Window(w.End.Add(-1)); got != w {
		t.Fatalf("the last moment of %v is in %v", w, got)
	}
	if next := b.Window(w.End); !next.Start.Equal(w.End) {
		t.Fatalf("after %v in %s comes %v", w, b.Timezone, next)
	}
	if before := b.Window(w.Start.Add(-1)); !before.End.Equal(w.Start) {
		t.Fatalf("before %v in %s comes %v", w, b.Timezone, before)
	}
	if w.Start.Location() != time.UTC || w.End.Location() != time.UTC {
		t.Fatalf("%v is not in UTC", w)
	}
}

// Every change of the clock since 2000 in every one of the zones is tiled: those
// are where it would go wrong.
func TestWindowsTileEveryChangeOfTheClock(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		_, changes := parseTime(t, "2000-01-01T00:00:00Z").In(location).ZoneBounds()
		for ; !changes.IsZero() && changes.Year() < 2032; _, changes = changes.ZoneBounds() {
			for _, minutes := range []int{-24 * 60, -60, -30, -1, 0, 1, 30, 59, 60, 24 * 60} {
				b := budget.Budget{Period: budget.Day, Timezone: zone}
				mustTile(t, &b, changes.Add(time.Duration(minutes)*time.Minute))
			}
		}
	}
}

// Everything that is wrong with a cap is told at once, by the name of the field.
func TestCheckNamesEveryFault(t *testing.T) {
	t.Parallel()
	good := budget.Budget{Limit: 1, Period: budget.Day, Timezone: "Europe/Berlin", AlertAt: []float64{0.5, 1}, OnUnpriced: budget.Allow}
	for _, c := range []struct {
		change func(*budget.Budget)
		fields string
	}{
		{func(*budget.Budget) {}, ""},
		{func(b *budget.Budget) { b.Limit, b.AlertAt, b.OnUnpriced = 0, nil, budget.Deny }, ""},
		{func(b *budget.Budget) { b.Limit, b.Period = budget.MaxLimit, budget.Total }, ""},
		{func(b *budget.Budget) { b.Limit = -1 }, "limit_usd"},
		{func(b *budget.Budget) { b.Limit = budget.MaxLimit + 1 }, "limit_usd"},
		{func(b *budget.Budget) { b.Period = "" }, "period"},
		{func(b *budget.Budget) { b.Period = "year" }, "period"},
		{func(b *budget.Budget) { b.Timezone = "" }, "timezone"},
		{func(b *budget.Budget) { b.Timezone = "Local" }, "timezone"},
		{func(b *budget.Budget) { b.Timezone = "../etc/passwd" }, "timezone"},
		{func(b *budget.Budget) { b.AlertAt = []float64{0} }, "alert_at"},
		{func(b *budget.Budget) { b.AlertAt = []float64{1.01, -1} }, "alert_at"},
		{func(b *budget.Budget) { b.AlertAt = []float64{math.NaN()} }, "alert_at"},
		{func(b *budget.Budget) { b.AlertAt = slices.Repeat([]float64{0.5}, budget.MaxThresholds+1) }, "alert_at"},
		{func(b *budget.Budget) { b.OnUnpriced = "" }, "on_unpriced"},
		{func(b *budget.Budget) { *b = budget.Budget{Limit: -1, AlertAt: []float64{2}} }, "limit_usd period timezone alert_at on_unpriced"},
	} {
		b := good
		c.change(&b)
		var faults schema.Faults
		b.Check(&faults)
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("Check(%s) names %q, want %q", fmt.Sprintf("%+v", b), got, c.fields)
		}
	}
}
