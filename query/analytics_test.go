package query_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
)

// analytics is what tests look at of an answer.
type analytics struct {
	Data          []bucket
	Totals        sums
	CompleteUntil *time.Time `json:"complete_until"`
	From, To      time.Time
	Timezone      string
}

type bucket struct {
	Bucket   time.Time
	Agent    *string
	Model    *string
	Provider *string
	sums
}

// sums are the measures that add up. Money stays text: the digits are compared.
type sums struct {
	Events         int64
	Errors         int64
	UnpricedEvents int64       `json:"unpriced_events"`
	InputTokens    int64       `json:"input_tokens"`
	OutputTokens   int64       `json:"output_tokens"`
	CacheRead      int64       `json:"cache_read_tokens"`
	CostUSD        json.Number `json:"cost_usd"`
	MaxLatencyMS   *int64      `json:"max_latency_ms"`
}

func (p *person) analytics(path string) analytics {
	p.t.Helper()
	var a analytics
	p.get("/v1/analytics/"+path).decode(http.StatusOK, &a)
	return a
}

// total is sums in numbers that can be compared.
type total struct {
	Events, Errors, Unpriced, Input, Output, CacheRead int64
	Nano                                               string
	MaxLatency                                         int64
}

func (s *sums) total(t testing.TB) total {
	t.Helper()
	// Dollars times 10^9 without a float.
	dollars, ok := new(big.Rat).SetString(s.CostUSD.String())
	if !ok {
		t.Fatalf("cost_usd = %q", s.CostUSD)
	}
	nano := dollars.Mul(dollars, big.NewRat(1_000_000_000, 1))
	if !nano.IsInt() {
		t.Fatalf("cost_usd = %s has more than nine decimals", s.CostUSD)
	}
	result := total{s.Events, s.Errors, s.UnpricedEvents, s.InputTokens, s.OutputTokens, s.CacheRead, nano.Num().String(), 0}
	if s.MaxLatencyMS != nil {
		result.MaxLatency = *s.MaxLatencyMS
	}
	return result
}

func (a *total) add(b total) {
	x, _ := new(big.Int).SetString(a.Nano, 10)
	y, _ := new(big.Int).SetString(b.Nano, 10)
	*a = total{
		a.Events + b.Events, a.Errors + b.Errors, a.Unpriced + b.Unpriced, a.Input + b.Input, a.Output + b.Output,
		a.CacheRead + b.CacheRead, x.Add(x, y).String(), max(a.MaxLatency, b.MaxLatency),
	}
}

// ofEvent is what one event adds.
func ofEvent(e *schema.Event) total {
	result := total{1, 0, 0, e.InputTokens, e.OutputTokens, e.CacheReadTokens, fmt.Sprint(int64(e.Cost)), max(0, e.LatencyMS)}
	if e.Status == schema.StatusError {
		result.Errors = 1
	}
	if e.Source == schema.CostUnpriced {
		result.Unpriced = 1
	}
	return result
}

// groupOf names a bucket of a group; a name that is not grouped by is "-".
func groupOf(start time.Time, agent, model, provider string) string {
	return start.UTC().Format(time.RFC3339) + "|" + agent + "|" + model + "|" + provider
}

// random events of a month in which the clocks of New York change, with the
// quarters of an hour of the change and the ends of days well covered.
func (p *person) randomEvents(random *rand.Rand, n int) []schema.Event {
	start := time.Date(2025, 10, 18, 0, 0, 0, 0, time.UTC)
	change := time.Date(2025, 11, 2, 6, 0, 0, 0, time.UTC)
	events := make([]schema.Event, n)
	for i := range events {
		at := start.Add(time.Duration(random.Int64N(int64(31 * 24 * time.Hour)))).Truncate(time.Microsecond)
		switch random.IntN(4) {
		case 0:
			at = change.Add(time.Duration(random.IntN(12)-6) * 15 * time.Minute)
		case 1:
			at = at.Truncate(30 * time.Minute).Add(-time.Microsecond)
		}
		events[i] = p.newEvent(func(e *schema.Event) {
			e.ID, e.Time, e.ReceivedAt = schema.NewID(at), at, at
			e.Agent = []string{"a", "B", "ü/ñ", "=1+1"}[random.IntN(4)]
			e.Model = []string{"gpt-4o", "claude", ""}[random.IntN(3)]
			e.Provider = []string{"openai", "anthropic", ""}[random.IntN(3)]
			e.InputTokens, e.OutputTokens, e.CacheReadTokens = random.Int64N(1e12), random.Int64N(1e6), random.Int64N(1e3)
			e.Cost = schema.NanoUSD(random.Int64N(int64(schema.MaxEventCost)))
			e.LatencyMS = random.Int64N(100_000) - 1
			if random.IntN(5) == 0 {
				e.Status = schema.StatusError
			}
			if random.IntN(5) == 0 {
				e.Source, e.Cost = schema.CostUnpriced, 0
			}
		})
	}
	return events
}

// materialise computes the aggregates of the whole month, where there are any, so
// that answers come from them.
func (w *world) materialise() {
	w.t.Helper()
	w.exec(`SELECT fold_sessions(1000000)`)
	conn, err := w.pool.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Release()
	if _, err := upkeep.RefreshRollups(w.t.Context(), conn.Conn(), time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// Whatever the zone, the grouping and the filter: each bucket holds exactly the
// events of its hour or day, buckets add up to the totals, and those to the events,
// late ones included.
func TestAnalyticsAddUpToTheEvents(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, pool)
		events := w.alice.randomEvents(random, 800)
		w.store(events[:600]...)
		w.store(w.bob.randomEvents(random, 100)...)
		w.materialise()
		w.store(events[600:]...)
		w.materialise()

		for _, zone := range []string{"UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
			loc, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, unit := range []string{"daily", "hourly"} {
				for _, group := range []string{"", "agent", "model", "provider", "agent,model,provider"} {
					w.alice.checkAnalytics(unit, loc, group, "", events)
				}
				w.alice.checkAnalytics(unit, loc, "model", "B", events)
			}
		}
	})
}

// checkAnalytics compares an answer with the events one by one.
func (p *person) checkAnalytics(unit string, loc *time.Location, group, agent string, events []schema.Event) {
	p.t.Helper()
	query := fmt.Sprintf("%s?from=2025-10-25T07:20:00Z&to=2025-11-06T00:00:01Z&fill=false&timezone=%s", unit, loc)
	if group != "" {
		query += "&group_by=" + strings.ReplaceAll(group, ",", "%2C")
	}
	if agent != "" {
		query += "&agent=" + agent
	}
	got := p.analytics(query)

	want, wantTotal := map[string]total{}, total{Nano: "0"}
	part := func(name, value string) string {
		if strings.Contains(group, name) {
			return value
		}
		return "-"
	}
	for i := range events {
		e := &events[i]
		if e.Time.Before(got.From) || !e.Time.Before(got.To) || agent != "" && e.Agent != agent {
			continue
		}
		start := localStart(unit, e.Time.In(loc))
		key := groupOf(start, part("agent", e.Agent), part("model", e.Model), part("provider", e.Provider))
		sum, ok := want[key]
		if !ok {
			sum.Nano = "0"
		}
		sum.add(ofEvent(e))
		want[key] = sum
		wantTotal.add(ofEvent(e))
	}
	gotBuckets, gotSum := map[string]total{}, total{Nano: "0"}
	shown := func(name string, value *string) string {
		if !strings.Contains(group, name) {
			return "-"
		}
		if value == nil {
			return ""
		}
		return *value
	}
	for i := range got.Data {
		b := &got.Data[i]
		gotBuckets[groupOf(b.Bucket, shown("agent", b.Agent), shown("model", b.Model), shown("provider", b.Provider))] = b.total(p.t)
		gotSum.add(b.total(p.t))
	}
	if diff := cmp.Diff(want, gotBuckets); diff != "" {
		p.t.Errorf("%s: buckets (-events +answer):\n%s", query, diff)
	}
	if diff := cmp.Diff(wantTotal, got.Totals.total(p.t)); diff != "" {
		p.t.Errorf("%s: totals (-events +answer):\n%s", query, diff)
	}
	if diff := cmp.Diff(wantTotal, gotSum); diff != "" {
		p.t.Errorf("%s: sum of buckets (-events +answer):\n%s", query, diff)
	}
	if got.From.After(time.Date(2025, 10, 25, 7, 20, 0, 0, time.UTC)) || got.To.Before(time.Date(2025, 11, 6, 0, 0, 1, 0, time.UTC)) {
		p.t.Errorf("%s: the answer is about %v to %v, less than was asked for", query, got.From, got.To)
	}
}

// localStart returns the start of the local hour or day of t by counting back a
// minute at a time, for want of a second opinion about calendars.
func localStart(unit string, t time.Time) time.Time {
	t = t.Truncate(time.Minute)
	same := func(a, b time.Time) bool {
		if unit == "hourly" {
			return a.Minute() == b.Minute()-1 && a.Hour() == b.Hour()
		}
		return a.Day() == b.Day()
	}
	for same(t.Add(-time.Minute), t) {
		t = t.Add(-time.Minute)
	}
	return t
}
