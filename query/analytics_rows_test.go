package query_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

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
