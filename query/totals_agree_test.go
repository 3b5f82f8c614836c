package query_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema"
)

// Whatever is asked of a month, by day and by hour, in any zone and any grouping: the
// buckets of both add up to the totals of both, for each group, and to the events one by
// one. The clocks of New York change in it, and a third of the events came late.
func TestDaysHoursAndEventsAgree(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		w := newWorld(t, pool)
		events := w.alice.randomEvents(rand.New(rand.NewPCG(seed, 3)), 600)
		w.store(events[:400]...)
		w.store(w.bob.randomEvents(rand.New(rand.NewPCG(seed, 4)), 60)...)
		w.materialise()
		w.store(events[400:]...)
		w.materialise()
		rapid.Check(t, w.alice.sumsAgree(events, time.Date(2025, 10, 18, 0, 0, 0, 0, time.UTC)))
	})
}

// The same holds for events that come days late, once the rollups are refreshed, and for
// those of the last hours, which no rollup holds yet.
func TestLateEventsAreInEverySum(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		w := newWorld(t, pool)
		start := w.now.Add(-30 * 24 * time.Hour)
		events := w.alice.randomEvents(rand.New(rand.NewPCG(seed, 5)), 500)
		for i := range events {
			// The month that ends now, the same otherwise.
			at := start.Add(events[i].Time.Sub(time.Date(2025, 10, 17, 23, 0, 0, 0, time.UTC)) * 29 / 31)
			events[i].Time, events[i].ReceivedAt, events[i].ID = at, at, schema.NewID(at)
		}
		w.store(events[:300]...)
		w.materialise()
		w.store(events[300:]...)
		w.materialise()
		rapid.Check(t, w.alice.sumsAgree(events, start))
	})
}

// groupings are all ways to group.
var groupings = []string{"", "agent", "model", "provider", "agent,model", "agent,provider", "model,provider", "agent,model,provider"}

// sumsAgree draws a question about the month from start on, and asks it by day and hour.
func (p *person) sumsAgree(events []schema.Event, start time.Time) func(*rapid.T) {
	return func(t *rapid.T) {
		from := start.Add(time.Duration(rapid.IntRange(-60, 30*24*60).Draw(t, "from")) * time.Minute)
		to := from.Add(time.Duration(rapid.IntRange(1, 31*24*60).Draw(t, "minutes")) * time.Minute)
		zone := rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "America/New_York"}).Draw(t, "zone")
		group := rapid.SampledFrom(groupings).Draw(t, "group")
		query := url.Values{
			"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "timezone": {zone}, "fill": {"false"},
		}
		if group != "" {
			query.Set("group_by", group)
		}
		if rapid.Bool().Draw(t, "filtered") {
			query.Set("agent", "B")
		}
		// The range begins and ends inside of an hour and is widened to whole hours of the zone.
		inside := p.analytics("hourly?" + query.Encode())
		for _, edge := range []time.Time{inside.From, inside.To} {
			if local := edge.In(location(t, zone)); local.Minute() != 0 || inside.From.After(from) || inside.To.Before(to) {
				t.Fatalf("hours of %v to %v in %s are about %v to %v", from, to, zone, inside.From, inside.To)
			}
		}
		daily := p.analytics("daily?" + query.Encode())
		for i := range inside.Data {
			if want, got := eventsBetween(events, inside.From, inside.Data[i].Bucket, query.Get("agent")), inside.eventsBefore(inside.Data[i].Bucket); got != want {
				t.Fatalf("hours in %s: %d events before %v, want %d", zone, got, inside.Data[i].Bucket, want)
			}
		}
		// Days are widened to whole ones, so the hours are asked of the same time.
		query.Set("from", daily.From.Format(time.RFC3339))
		query.Set("to", daily.To.Format(time.RFC3339))
		hourly := p.analytics("hourly?" + query.Encode())
		if !daily.From.Equal(hourly.From) || !daily.To.Equal(hourly.To) || daily.From.After(from) || daily.To.Before(to) {
			t.Fatalf("from %v to %v: days are about %v to %v, hours about %v to %v", from, to, daily.From, daily.To, hourly.From, hourly.To)
		}
		for unit, got := range map[string]*analytics{"days": &daily, "hours": &hourly, "hours as asked": &inside} {
			want := sumOfEvents(events, got, group, query.Get("agent"))
			groups, all := sumOfBuckets(p.t, got, group)
			if diff := cmp.Diff(want, groups); diff != "" {
				t.Errorf("%s by %q (-events +%s):\n%s", unit, group, unit, diff)
			}
			if diff := cmp.Diff(got.Totals.total(p.t), all); diff != "" {
				t.Errorf("%s by %q (-totals +sum):\n%s", unit, group, diff)
			}
		}
	}
}

// eventsBefore counts the events of the buckets that start before t.
func (a *analytics) eventsBefore(t time.Time) (n int64) {
	for i := range a.Data {
		if a.Data[i].Bucket.Before(t) {
			n += a.Data[i].Events
		}
	}
	return n
}

// eventsBetween counts the events of an agent, or of all if it is empty, from a time to another.
func eventsBetween(events []schema.Event, from, to time.Time, agent string) (n int64) {
	for i := range events {
		if e := &events[i]; !e.Time.Before(from) && e.Time.Before(to) && (agent == "" || e.Agent == agent) {
			n++
		}
	}
	return n
}

// sumOfBuckets adds up the buckets of an answer, by group and all together.
func sumOfBuckets(t testing.TB, a *analytics, group string) (groups map[string]total, all total) {
	t.Helper()
	groups, all = map[string]total{}, total{Nano: "0"}
	for i := range a.Data {
		b := &a.Data[i]
		addTo(groups, groupName(group, valueOf(b.Agent), valueOf(b.Model), valueOf(b.Provider)), b.total(t))
		all.add(b.total(t))
	}
	return groups, all
}

// sumOfEvents adds up the events that an answer is about, by group.
func sumOfEvents(events []schema.Event, a *analytics, group, agent string) map[string]total {
	groups := map[string]total{}
	for i := range events {
		e := &events[i]
		if e.Time.Before(a.From) || !e.Time.Before(a.To) || agent != "" && e.Agent != agent {
			continue
		}
		addTo(groups, groupName(group, e.Agent, e.Model, e.Provider), ofEvent(e))
	}
	return groups
}

func addTo(groups map[string]total, name string, part total) {
	sum, ok := groups[name]
	if !ok {
		sum.Nano = "0"
	}
	sum.add(part)
	groups[name] = sum
}

// groupName holds the names that are grouped by.
func groupName(group, agent, model, provider string) string {
	parts := strings.Split(group, ",")
	name := func(part, value string) string {
		if slices.Contains(parts, part) {
			return value
		}
		return "-"
	}
	return fmt.Sprintf("%q", []string{name("agent", agent), name("model", model), name("provider", provider)})
}

func location(t interface {
	Helper()
	Fatal(...any)
}, name string,
) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
