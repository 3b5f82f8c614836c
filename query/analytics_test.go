package query_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
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

// Every bucket of the range is there unless fill=false, days of 23 and 25 hours
// and half-hour zones included.
func TestAnalyticsFillEmptyBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	starts := func(a analytics) (times []string) {
		for _, b := range a.Data {
			times = append(times, b.Bucket.Format("02T15:04"))
		}
		return times
	}
	for query, want := range map[string][]string{
		"daily?from=2025-11-01&to=2025-11-04&timezone=America/New_York":                         {"01T04:00", "02T04:00", "03T05:00"},
		"daily?from=2025-03-08&to=2025-03-11&timezone=America/New_York":                         {"08T05:00", "09T05:00", "10T04:00"},
		"daily?from=2025-11-02&to=2025-11-03&timezone=Asia/Kolkata":                             {"01T18:30"},
		"hourly?from=2025-11-02T00:10:00%2B05:30&to=2025-11-01T19:30:01Z&timezone=Asia/Kolkata": {"01T18:30", "01T19:30"},
		"hourly?from=2025-11-02T05:00:00Z&to=2025-11-02T08:00:00Z&timezone=America/New_York":    {"02T05:00", "02T06:00", "02T07:00"},
		"daily?from=2025-11-02&to=2025-11-03&fill=false":                                        nil,
		"daily?from=2025-11-02&to=2025-11-03&group_by=agent":                                    nil,
	} {
		if diff := cmp.Diff(want, starts(w.alice.analytics(query))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if got := len(w.alice.analytics("daily").Data); got != 30 {
		t.Errorf("GET /v1/analytics/daily has %d days, want 30", got)
	}
	if got := len(w.alice.analytics("hourly?timezone=Asia/Kathmandu").Data); got != 48 {
		t.Errorf("GET /v1/analytics/hourly has %d hours, want 48", got)
	}
	// With groups, each group that occurs has all buckets.
	w.store(w.alice.newEvent(nil), w.alice.newEvent(func(e *schema.Event) { e.Agent = "other" }))
	a := w.alice.analytics("hourly?group_by=agent,model")
	if got := len(a.Data); got != 2*48 {
		t.Errorf("two groups over 48 hours have %d rows, want 96", got)
	}
	if !slices.IsSortedFunc(a.Data, func(x, y bucket) int { return x.Bucket.Compare(y.Bucket) }) {
		t.Error("rows are not in the order of time")
	}
}

// An answer has at most 10 000 rows; the refusal says what to do.
func TestAnalyticsRefuseTooManyRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.alice.get("/v1/analytics/daily?from=2000-01-01&to=2027-05-19").want(http.StatusOK)
	for _, query := range []string{
		"daily?from=2000-01-01&to=2027-05-20", "hourly?from=2000-01-01&to=2200-01-01",
		"hourly?from=2024-01-01&to=2025-02-22", "hourly?from=2024-01-01&to=2026-01-01&fill=false",
	} {
		refusal := w.alice.get("/v1/analytics/" + query).refused(http.StatusUnprocessableEntity)
		if len(refusal.Errors) != 1 || !strings.Contains(refusal.Errors[0].Message, "narrow") {
			t.Errorf("%s: %+v, want one error that says to narrow", query, refusal)
		}
	}
	for query, field := range map[string]string{
		"daily?timezone=Mars/Olympus": "timezone", "daily?timezone=Local": "timezone", "daily?timezone=../etc": "timezone",
		"daily?group_by=user": "group_by", "daily?fill=maybe": "fill", "hourly?format=xml": "format", "daily?limit=3": "limit",
	} {
		refusal := w.alice.get("/v1/analytics/" + query).refused(http.StatusUnprocessableEntity)
		if len(refusal.Errors) != 1 || refusal.Errors[0].Field != field {
			t.Errorf("%s: %+v, want one error of %s", query, refusal, field)
		}
	}
}

// Sums beyond 64 bits of nano-dollars keep every digit.
func TestAnalyticsSumsHaveNoLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.exec(`
		INSERT INTO events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
			input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
			cost_nano_usd, cost_source, kafka_partition, kafka_offset)
		SELECT $2, $1, gen_random_uuid(), $2, 'rich', '', '', 'ses_x', false, 'ok', 9007199254740991, 0, 0, 0, 0, 0, 999999999999999, 'client', 0, n
		FROM generate_series(1, 20000) AS n`, w.alice.account, w.now.Add(-time.Hour))
	if err := schematest.SumEvents(t.Context(), w.pool); err != nil {
		t.Fatal(err)
	}
	want := sums{Events: 20000, InputTokens: 0, CostUSD: "19999999999.99998"}
	var got struct {
		Totals struct {
			Events      int64
			InputTokens json.Number `json:"input_tokens"`
			CostUSD     json.Number `json:"cost_usd"`
		}
	}
	w.alice.get("/v1/analytics/daily").decode(http.StatusOK, &got)
	if got.Totals.Events != want.Events || got.Totals.CostUSD != want.CostUSD || got.Totals.InputTokens != "180143985094819820000" {
		t.Errorf("totals = %+v, want 20000 events, 180143985094819820000 tokens and %s USD", got.Totals, want.CostUSD)
	}
}

// complete_until is where the slowest partition stands, or the last refresh of the rollups if that is further back.
func TestCompleteUntil(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	ask := func() string {
		t.Helper()
		a := w.alice.analytics("daily?from=2025-11-01&to=2025-11-03")
		if a.CompleteUntil == nil {
			return "null"
		}
		return a.CompleteUntil.Format(time.RFC3339)
	}
	steps := []struct{ sql, want string }{
		{`SELECT 1`, "null"},
		{`INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until) VALUES ('outlay.events.v1', 0, 1, '2025-11-05T00:00:01Z')`, "2025-11-04T12:00:00Z"},
		{`INSERT INTO kafka_offsets (topic, partition, next_offset) VALUES ('outlay.events.v1', 1, 1)`, "null"},
		{`UPDATE kafka_offsets SET complete_until = '2025-11-04T00:00:00Z' WHERE partition = 1`, "2025-11-04T00:00:00Z"},
	}
	w.exec(`UPDATE rollup_progress SET complete_until = '2025-11-04T12:00:00Z'`)
	for _, step := range steps {
		w.exec(step.sql)
		if got := ask(); got != step.want {
			t.Errorf("after %s: complete_until = %s, want %s", step.sql, got, step.want)
		}
	}
}

// CSV has the rows of the JSON answer, and no name that a spreadsheet would run.
func TestAnalyticsAsCSV(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.newEvent(func(e *schema.Event) { e.Agent, e.Model, e.LatencyMS = "\u3000＝cmd|x", "", schema.NoLatency }))
	answer := w.alice.get("/v1/analytics/daily?format=csv&group_by=agent,model&fill=false")
	answer.want(http.StatusOK)
	if got := answer.header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") {
		t.Errorf("Content-Type = %q", got)
	}
	rows, err := csv.NewReader(strings.NewReader(string(answer.body))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	day := w.now.Add(-time.Minute).Truncate(24 * time.Hour).Format(time.RFC3339)
	want := [][]string{
		{
			"bucket", "agent", "model", "events", "errors", "unpriced_events", "input_tokens", "output_tokens", "cache_read_tokens",
			"cost_usd", "avg_latency_ms", "p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "max_latency_ms",
		},
		{day, "'\u3000＝cmd|x", "", "1", "0", "0", "1200", "350", "200", "0.0065", "", "", "", "", ""},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
}
