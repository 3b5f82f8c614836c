package ingest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// An accepted event is in Kafka with every field that the client sent, priced.
func TestTrackWritesTheWholeEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	now := time.Now().UTC().Truncate(time.Second)
	r := f.post(t, "/v1/track", fmt.Sprintf(`{
		"agent":" support-bot ","model":"gpt-4o","provider":"OpenAI","input_tokens":1000,"output_tokens":200,
		"cache_read_tokens":400,"reasoning_tokens":50,"latency_ms":840,"session_id":"abc","step":"plan",
		"user_id":"u1","tags":["prod","eu"],"status":"error","error_type":"timeout",
		"parent_event_id":"evt_00000000000000000000000001","timestamp":%q,"metadata":{"k": [1, "ü"]},
		"some_future_field":{"a":1}}`, now.Format(time.RFC3339)))
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %v", r.status, r.body)
	}
	// gpt-4o: 2.50 in, 1.25 cached, 10.00 out USD per million tokens.
	want := schema.Event{
		AccountID: f.account, Agent: "support-bot", Provider: "openai", Model: "gpt-4o", SessionID: "ses_abc",
		Time: now, InputTokens: 1000, OutputTokens: 200, CacheReadTokens: 400, ReasoningTokens: 50, LatencyMS: 840,
		Cost: 600*2_500 + 400*1_250 + 200*10_000, Source: schema.CostCalculated, Status: schema.StatusError, ErrorType: "timeout",
		Step: "plan", Parent: schema.ID{15: 1}, UserID: "u1", Tags: []string{"prod", "eu"}, Metadata: []byte(`{"k": [1, "ü"]}`),
	}
	got := f.events(t, 1)[0]
	ignore := cmpopts.IgnoreFields(schema.Event{}, "ID", "ReceivedAt", "PriceID", "Breakdown")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("event differs (-want +got):\n%s", diff)
	}
	wantBody := map[string]any{
		"tracked": true, "cost_usd": "0.004", "session_id": "ses_abc", "event_id": got.ID.Text(schema.EventPrefix),
		"provider": "openai", "model": "gpt-4o", "cost_source": "calculated", "price_id": got.PriceID, "duplicate": false,
	}
	r.body["cost_usd"] = fmt.Sprint(r.body["cost_usd"])
	if diff := cmp.Diff(wantBody, r.body); diff != "" {
		t.Errorf("answer differs (-want +got):\n%s", diff)
	}
	if got.PriceID == "" || len(got.Breakdown) == 0 {
		t.Errorf("price id %q and breakdown %q must travel with the event", got.PriceID, got.Breakdown)
	}
	if n := f.metric(t, "outlay_ingest_events_accepted_total"); n != 1 {
		t.Errorf("accepted counter = %v, want 1", n)
	}
}

// Both endpoints know both names of the token fields.
func TestTokenFieldNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, path := range []string{"/v1/track", "/v1/events"} {
		for _, names := range [][2]string{{"input_tokens", "output_tokens"}, {"prompt_tokens", "completion_tokens"}} {
			r := f.post(t, path, fmt.Sprintf(`{"agent":"a","model":"gpt-4o-mini","%s":1000,"%s":100}`, names[0], names[1]))
			if got, want := fmt.Sprint(r.body["cost_usd"]), "0.00021"; r.status != 200 || got != want {
				t.Errorf("%s with %v: status %d, cost %s, want 200, %s", path, names, r.status, got, want)
			}
		}
	}
	r := f.post(t, "/v1/track", `{"agent":"a","input_tokens":5,"prompt_tokens":6}`)
	if r.status != 422 {
		t.Errorf("contradicting names: status %d, want 422", r.status)
	}
}

// Where a cost comes from is always said, and unknown is never a silent zero.
func TestCostSource(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, c := range []struct{ name, fields, cost, source string }{
		{"calculated", `"model":"gpt-4o","input_tokens":1,"output_tokens":0`, "0.0000025", "calculated"},
		{"client", `"model":"gpt-4o","input_tokens":1,"cost_usd":0.1234567891`, "0.123456789", "client"},
		{"client's zero", `"model":"gpt-4o","input_tokens":1,"cost_usd":0`, "0", "client"},
		{"client's null", `"model":"gpt-4o","input_tokens":1,"cost_usd":null`, "0.0000025", "calculated"},
		{"no usage", `"model":"gpt-4o"`, "0", "no_usage"},
		{"no model", `"input_tokens":10`, "0", "unpriced"},
		{"unknown model", `"model":"my-own-llm","input_tokens":10`, "0", "unpriced"},
	} {
		r := f.post(t, "/v1/track", `{"agent":"a",`+c.fields+`}`)
		if cost := fmt.Sprint(r.body["cost_usd"]); cost != c.cost || r.body["cost_source"] != c.source {
			t.Errorf("%s: cost %s from %v, want %s from %s", c.name, cost, r.body["cost_source"], c.cost, c.source)
		}
	}
}

// Session ids are answered in one form, whichever form they came in.
func TestSessionIDForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for sent, want := range map[string]string{"chat 7": "ses_chat 7", "ses_chat 7": "ses_chat 7"} {
		r := f.post(t, "/v1/track", fmt.Sprintf(`{"agent":"a","session_id":%q}`, sent))
		if got := r.body["session_id"]; got != want {
			t.Errorf("session_id %q is answered as %v, want %q", sent, got, want)
		}
	}
	r := f.post(t, "/v1/track", `{"agent":"a"}`)
	session, event := r.body["session_id"].(string), r.body["event_id"].(string)
	if strings.TrimPrefix(session, "ses_") != strings.TrimPrefix(event, "evt_") {
		t.Errorf("implicit session %q does not belong to event %q", session, event)
	}
}

// A retry with the same key is answered with the same ids, by header or body.
func TestIdempotencyKeyGivesTheSameIDs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.post(t, "/v1/track", `{"agent":"a","idempotency_key":"k1"}`)
	again := f.post(t, "/v1/track", `{"agent":"a"}`, "Idempotency-Key", "k1")
	other := f.post(t, "/v1/track", `{"agent":"a"}`, "Idempotency-Key", "k2")
	if first.body["event_id"] != again.body["event_id"] || first.body["session_id"] != again.body["session_id"] {
		t.Errorf("the same key is answered with %v and %v", first.body, again.body)
	}
	if first.body["event_id"] == other.body["event_id"] {
		t.Error("different keys are answered with the same id")
	}
	clash := f.post(t, "/v1/track", `{"agent":"a","idempotency_key":"k1"}`, "Idempotency-Key", "k2")
	if clash.status != 422 {
		t.Errorf("contradicting keys: status %d, want 422", clash.status)
	}
}

// Every error row of the interface comes out with its status, title and code.
func TestTrackErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	typo := f.secret[:len(f.secret)-1] + "!"
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		title      string
		field      string
	}{
		{name: "no key", headers: []string{"Authorization", ""}, status: 401, title: "Unauthorized"},
		{name: "other scheme", headers: []string{"Authorization", "Basic abc"}, status: 401, title: "Unauthorized"},
		{name: "wrong prefix", headers: []string{"Authorization", "Bearer sk_live_abc"}, status: 401, title: "Unauthorized"},
		{name: "bad checksum", headers: []string{"Authorization", "Bearer " + typo}, status: 401, title: "Unauthorized"},
		{name: "unknown key", headers: []string{"Authorization", "Bearer " + account.NewSecret()}, status: 401, title: "Unauthorized"},
		{name: "no agent", body: `{"model":"gpt-4o"}`, status: 422, title: "Validation error", field: "agent"},
		{name: "blank agent", body: `{"agent":"  "}`, status: 422, title: "Validation error", field: "agent"},
		{name: "null agent", body: `{"agent":null}`, status: 422, title: "Validation error", field: "agent"},
		{name: "number as agent", body: `{"agent":7}`, status: 422, title: "Validation error", field: "agent"},
		{name: "other case", body: `{"Agent":"a"}`, status: 422, title: "Validation error", field: "agent"},
		{name: "empty body", body: ` `, status: 422, title: "Validation error"},
		{name: "not JSON", body: `agent=a`, status: 422, title: "Validation error"},
		{name: "cut off", body: `{"agent":"a"`, status: 422, title: "Validation error"},
		{name: "array", body: `[{"agent":"a"}]`, status: 422, title: "Validation error"},
		{name: "trailing data", body: `{"agent":"a"}{}`, status: 422, title: "Validation error"},
		{name: "twice", body: `{"agent":"a","agent":"b"}`, status: 422, title: "Validation error", field: "agent"},
		{name: "NUL", body: `{"agent":"a\u0000"}`, status: 422, title: "Validation error", field: "agent"},
		{name: "lone surrogate", body: `{"agent":"\ud800"}`, status: 422, title: "Validation error"},
		{name: "invalid UTF-8", body: "{\"agent\":\"\xff\"}", status: 422, title: "Validation error"},
		{name: "fraction of a token", body: `{"agent":"a","input_tokens":1.5}`, status: 422, title: "Validation error", field: "input_tokens"},
		{name: "negative tokens", body: `{"agent":"a","output_tokens":-1}`, status: 422, title: "Validation error", field: "output_tokens"},
		{name: "tokens as text", body: `{"agent":"a","latency_ms":"12"}`, status: 422, title: "Validation error", field: "latency_ms"},
		{name: "negative cost", body: `{"agent":"a","cost_usd":-0.1}`, status: 422, title: "Validation error", field: "cost_usd"},
		{name: "cost as text", body: `{"agent":"a","cost_usd":"1"}`, status: 422, title: "Validation error", field: "cost_usd"},
		{name: "cost too large", body: `{"agent":"a","cost_usd":1e6.5}`, status: 422, title: "Validation error"},
		{name: "calculated cost too large", body: `{"agent":"a","model":"gpt-4o","input_tokens":9007199254740991}`, status: 422, title: "Validation error", field: "input_tokens"},
		{name: "too old", body: `{"agent":"a","timestamp":"2020-01-01T00:00:00Z"}`, status: 422, title: "Validation error", field: "timestamp"},
		{name: "not a time", body: `{"agent":"a","timestamp":"yesterday"}`, status: 422, title: "Validation error", field: "timestamp"},
		{name: "cached above total", body: `{"agent":"a","input_tokens":1,"cache_read_tokens":2}`, status: 422, title: "Validation error", field: "input_tokens"},
		{name: "unknown status", body: `{"agent":"a","status":"maybe"}`, status: 422, title: "Validation error", field: "status"},
		{name: "too many tags", body: `{"agent":"a","tags":[` + strings.Repeat(`"x",`, 16) + `"x"]}`, status: 422, title: "Validation error", field: "tags"},
		{name: "metadata not an object", body: `{"agent":"a","metadata":[1]}`, status: 422, title: "Validation error", field: "metadata"},
		{name: "metadata too deep", body: `{"agent":"a","metadata":` + strings.Repeat(`{"a":`, 9) + `1` + strings.Repeat(`}`, 9) + `}`, status: 422, title: "Validation error", field: "metadata"},
		{name: "metadata blows up", body: `{"agent":"a","metadata":{"a":1e131071}}`, status: 422, title: "Validation error", field: "metadata"},
		{name: "metadata with NUL", body: `{"agent":"a","metadata":{"a":"\u0000"}}`, status: 422, title: "Validation error", field: "metadata"},
		{name: "metadata name twice", body: `{"agent":"a","metadata":{"a":1,"a":2}}`, status: 422, title: "Validation error", field: "metadata.a"},
		{name: "form", body: `agent=a`, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, title: "Unsupported media type"},
		{name: "brotli", body: `{}`, headers: []string{"Content-Encoding", "br"}, status: 415, title: "Unsupported media type"},
		{name: "not gzip", body: `{}`, headers: []string{"Content-Encoding", "gzip"}, status: 422, title: "Validation error"},
		{name: "too large", body: `{"agent":"` + strings.Repeat("a", 256<<10) + `"}`, status: 413, title: "Payload too large"},
	} {
		r := f.post(t, "/v1/track", c.body, c.headers...)
		if r.status != c.status || r.body["title"] != c.title {
			t.Errorf("%s: %d %v, want %d %s", c.name, r.status, r.body["title"], c.status, c.title)
		}
		if got := r.header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: Content-Type %q", c.name, got)
		}
		if r.body["request_id"] != r.header.Get("X-Request-Id") || r.body["detail"] == "" || r.body["code"] == "" {
			t.Errorf("%s: incomplete problem %v", c.name, r.body)
		}
		if c.field != "" && !names(r.body["errors"], c.field) {
			t.Errorf("%s: errors %v do not name %s", c.name, r.body["errors"], c.field)
		}
		if (r.status == 401) != (r.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate %q with status %d", c.name, r.header.Get("WWW-Authenticate"), r.status)
		}
	}
}

// names reports whether a list of faults names field.
func names(errs any, field string) bool {
	list, _ := errs.([]any)
	for _, e := range list {
		if fault, ok := e.(map[string]any); ok && fault["field"] == field {
			return true
		}
	}
	return false
}

// All faults of a body are told at once.
func TestTrackTellsAllFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := f.post(t, "/v1/track", `{"input_tokens":-1,"latency_ms":"x","cost_usd":-1,"metadata":3,"tags":"t"}`)
	for _, field := range []string{"agent", "input_tokens", "latency_ms", "cost_usd", "metadata", "tags"} {
		if !names(r.body["errors"], field) {
			t.Errorf("errors %v do not name %s", r.body["errors"], field)
		}
	}
}

func TestUnknownPathAndMethod(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if r := f.do(t, http.MethodGet, "/v1/track", nil); r.status != 405 || r.body["title"] != "Method not allowed" {
		t.Errorf("GET /v1/track: %d %v, want 405", r.status, r.body["title"])
	}
	if r := f.do(t, http.MethodPost, "/v2/track", nil); r.status != 404 || r.body["title"] != "Not found" {
		t.Errorf("POST /v2/track: %d %v, want 404", r.status, r.body["title"])
	}
}

// A compressed body is taken, and its limit holds for what it inflates to.
func TestGzip(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if r := f.post(t, "/v1/track", zip(t, `{"agent":"zipped"}`), "Content-Encoding", "gzip"); r.status != 200 {
		t.Errorf("compressed event: %d %v", r.status, r.body)
	}
	bomb := zip(t, `{"agent":"`+strings.Repeat("a", 10<<20)+`"}`)
	if r := f.post(t, "/v1/track", bomb, "Content-Encoding", "gzip"); r.status != 413 {
		t.Errorf("10 MiB in %d bytes: status %d, want 413", len(bomb), r.status)
	}
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// With the broker gone the answer is 500 with Retry-After, once it was waited for.
func TestBrokerGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.ProduceTimeout = 300 * time.Millisecond })
	f.cluster.Close()
	r := f.post(t, "/v1/track", `{"agent":"a"}`)
	if r.status != 500 || r.body["title"] != "Server error" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v, Retry-After %q, want 500 Server error with Retry-After", r.status, r.body["title"], r.header.Get("Retry-After"))
	}
	if n := f.metric(t, "outlay_ingest_produce_errors_total", "timeout"); n != 1 {
		t.Errorf("timeout counter = %v, want 1", n)
	}
}

// What Kafka's client refuses is settled, like what it took: nothing stays under way.
func TestRefusedByTheClientIsSettled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ingest.kafka.Close()
	if r := f.post(t, "/v1/track", `{"agent":"a"}`); r.status != 500 {
		t.Errorf("status %d, want 500", r.status)
	}
	if r := f.post(t, "/v1/track/batch", `[{"agent":"a"},{"agent":"b"}]`); r.status != 207 {
		t.Errorf("status %d of a batch, want 207", r.status)
	}
	f.nothingUnderWay(t)
}

// nothingUnderWay holds the producer to what it must come back to when all are answered.
func (f *fixture) nothingUnderWay(t *testing.T) {
	t.Helper()
	// A response is read before its handler has returned.
	const bytes, requests = "outlay_ingest_produce_buffered_bytes", "outlay_ingest_requests_under_way"
	for deadline := time.Now().Add(10 * time.Second); f.metric(t, bytes) != 0 || f.metric(t, requests) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v requests hold %v bytes, want none", f.metric(t, requests), f.metric(t, bytes))
		}
	}
}

// A full buffer is refused at once instead of taking memory.
func TestBufferFull(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.ProduceTimeout, c.MaxBufferedBytes = 200*time.Millisecond, requestBytes+600 })
	f.cluster.Close()
	for range 5 {
		if r := f.post(t, "/v1/track", `{"agent":"a"}`); r.status != 500 {
			t.Fatalf("status %d, want 500", r.status)
		}
	}
	if n := f.metric(t, "outlay_ingest_produce_errors_total", "buffer_full"); n == 0 {
		t.Error("no event was refused for a full buffer")
	}
}

// What a body inflates to counts while it is read, and all is given back.
func TestInflatedBodyCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	small := newFixture(t, func(c *Config) { c.MaxBufferedBytes = requestBytes + gzipBytes + copies*50_000 })
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write([]byte(`{"agent":"a","metadata":{"k":"` + strings.Repeat("x", 60_000) + `"}}`))
	_ = w.Close()
	post := func(f *fixture) int {
		return f.post(t, "/v1/track", body.String(), "Content-Encoding", "gzip").status
	}
	if status := post(f); status != 200 {
		t.Fatalf("status %d with room, want 200", status)
	}
	f.nothingUnderWay(t)
	if status := post(small); status != 500 {
		t.Errorf("status %d without room, want 500", status)
	}
	small.nothingUnderWay(t)
}

// Requests beyond --max-requests are refused before anything of them is looked at, and
// served again when others have ended.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.MaxRequests = 1 })
	if err := f.ingest.recorder.Enter(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/track", "/v1/events", "/v1/track/batch", "/v1/budgets/check", "/v1/traces"} {
		r := f.post(t, path, `not looked at`, "Authorization", "Bearer nobody")
		want := 500
		if path == "/v1/traces" {
			want = 503 // as OTLP asks for
		}
		if r.status != want || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, Retry-After %q, want %d with one", path, r.status, r.header.Get("Retry-After"), want)
		}
	}
	if n := f.metric(t, "outlay_ingest_produce_errors_total", "too_many_requests"); n != 5 {
		t.Errorf("%v requests counted as too many, want 5", n)
	}
	f.ingest.recorder.Leave()
	if r := f.post(t, "/v1/track", `{"agent":"a"}`); r.status != 200 {
		t.Errorf("status %d afterwards, want 200", r.status)
	}
	f.nothingUnderWay(t)
}
