package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// exported is the answer to a trace export.
type exported struct {
	status int
	header http.Header
	body   []byte
}

// export sends a body to /v1/traces with headers given as pairs.
func (f *fixture) export(t testing.TB, contentType string, body []byte, headers ...string) exported {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.secret)
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != contentType && resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("answered as %q, want the request's %q", got, contentType)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		t.Error("the answer has no X-Request-Id")
	}
	return exported{resp.StatusCode, resp.Header, text}
}

// genAI makes an export of one service; every map is one client span that began a
// minute ago and took 1.5 s. The ids count from 1.
func genAI(t testing.TB, spans ...map[string]any) ptrace.Traces {
	t.Helper()
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	slice := rs.ScopeSpans().AppendEmpty().Spans()
	start := time.Now().Add(-time.Minute)
	for i, attributes := range spans {
		s := slice.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{0x4b, 15: 1})
		s.SetSpanID(pcommon.SpanID{0xf0, 7: byte(i + 1)})
		s.SetKind(ptrace.SpanKindClient)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(1500 * time.Millisecond)))
		if err := s.Attributes().FromRaw(attributes); err != nil {
			t.Fatal(err)
		}
	}
	return traces
}

func chat(agent string) map[string]any {
	return map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-4o",
		"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 300, "gen_ai.agent.name": agent,
	}
}

func inJSON(t testing.TB, traces ptrace.Traces) []byte {
	t.Helper()
	body, err := new(ptrace.JSONMarshaler).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func inProto(t testing.TB, traces ptrace.Traces) []byte {
	t.Helper()
	body, err := new(ptrace.ProtoMarshaler).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func gzipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// partial is the partial success of an answer in JSON.
func partial(t testing.TB, a exported) (rejected, message string) {
	t.Helper()
	var body struct {
		PartialSuccess struct {
			RejectedSpans, ErrorMessage string
		}
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Fatalf("the answer %q is not JSON: %v", a.body, err)
	}
	return body.PartialSuccess.RejectedSpans, body.PartialSuccess.ErrorMessage
}

// A span becomes the event that the same call would have been at /v1/track, in
// every encoding.
func TestTracesRecordsCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	a := chat("planner")
	a["gen_ai.conversation.id"] = "conv_1"
	a["gen_ai.usage.cache_read.input_tokens"] = 1000
	a["error.type"] = "timeout"
	traces := genAI(t, a)
	for name, answer := range map[string]exported{
		"protobuf":       f.export(t, "application/x-protobuf", inProto(t, traces)),
		"json":           f.export(t, "application/json", inJSON(t, traces)),
		"gzip, protobuf": f.export(t, "application/x-protobuf", gzipped(t, inProto(t, traces)), "Content-Encoding", "gzip"),
	} {
		want := ""
		if name == "json" {
			want = "{}"
		}
		if answer.status != 200 || string(answer.body) != want {
			t.Errorf("%s: status %d, body %q, want 200 and %q", name, answer.status, answer.body, want)
		}
		if answer.header.Get("X-RateLimit-Limit") == "" {
			t.Errorf("%s: the answer has no X-RateLimit-Limit", name)
		}
	}
	key := "4b000000000000000000000000000001-f000000000000001"
	got := f.events(t, 1)[0]
	want := schema.Event{
		ID: schema.KeyedEventID(f.account, key), AccountID: f.account, IdempotencyKey: key,
		Agent: "planner", Provider: "openai", Model: "gpt-4o", SessionID: "ses_conv_1", Step: "chat",
		Time:        traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).StartTimestamp().AsTime().Truncate(time.Microsecond),
		InputTokens: 1200, CacheReadTokens: 1000, OutputTokens: 300, LatencyMS: 1500,
		Status: schema.StatusError, ErrorType: "timeout", Source: schema.CostCalculated,
		Cost: 4_750_000, // 200 × 2.5 + 1000 × 1.25 + 300 × 10 micro-dollars
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(schema.Event{}, "ReceivedAt", "PriceID", "Breakdown")); diff != "" {
		t.Errorf("event differs (-want +got):\n%s", diff)
	}
}

// Without a conversation, the trace is the session. A call inside of another is
// its child. What is no call is counted, and takes nothing from the plan.
func TestTracesSessionsParentsAndCounters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	inner := chat("a")
	inner["gen_ai.usage.input_tokens"] = 7
	traces := genAI(t, chat("a"), inner,
		map[string]any{"http.request.method": "POST"},
		map[string]any{"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 1207},
		map[string]any{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": -1},
	)
	spans := traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	spans.At(1).SetParentSpanID(spans.At(0).SpanID())
	a := f.export(t, "application/json", inJSON(t, traces))
	if rejected, message := partial(t, a); rejected != "1" || !strings.Contains(message, "1 of 5") ||
		!strings.Contains(message, "f000000000000005: gen_ai.usage.input_tokens must be an integer") {
		t.Errorf("rejected %s: %s", rejected, message)
	}
	events := f.events(t, 2)
	slices.SortFunc(events, func(a, b schema.Event) int { return int(b.InputTokens - a.InputTokens) })
	for _, e := range events {
		if e.SessionID != "ses_4b000000000000000000000000000001" || e.SessionImplicit {
			t.Errorf("session = %q, implicit %t, want the trace", e.SessionID, e.SessionImplicit)
		}
	}
	if events[1].Parent != events[0].ID || !events[0].Parent.IsZero() {
		t.Errorf("parents = %v, %v, want none and the first", events[0].Parent, events[1].Parent)
	}
	want := `
# HELP outlay_ingest_spans_total OpenTelemetry spans received: converted into events, rejected, wrapper of other GenAI spans, or ignored as not GenAI.
# TYPE outlay_ingest_spans_total counter
outlay_ingest_spans_total{outcome="converted"} 2
outlay_ingest_spans_total{outcome="ignored"} 1
outlay_ingest_spans_total{outcome="rejected"} 1
outlay_ingest_spans_total{outcome="wrapper"} 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "outlay_ingest_spans_total"); err != nil {
		t.Error(err)
	}
}

// Each span is judged by the rules of every other event, and the good ones are
// recorded.
func TestTracesJudgesEachSpanAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	with := func(name string, value any) map[string]any {
		a := chat("a")
		a[name] = value
		return a
	}
	for name, c := range map[string]struct {
		attributes map[string]any
		want       string
	}{
		"invalid UTF-8":      {with("gen_ai.agent.name", "a\xff"), "agent must be valid UTF-8"},
		"control characters": {with("gen_ai.response.model", "gpt\x00"), "model must not contain control characters"},
		"long name":          {with("gen_ai.agent.name", strings.Repeat("a", 201)), "agent must have at most 200 characters"},
		"blank agent":        {with("gen_ai.agent.name", "  "), "agent is required"},
		"huge count":         {with("gen_ai.usage.input_tokens", int64(1)<<53), "gen_ai.usage.input_tokens must be an integer"},
		"huge cost":          {with("gen_ai.usage.input_tokens", schema.MaxCount), "come to more than USD 1000000"},
		"text as a count":    {with("gen_ai.usage.output_tokens", "12a"), "gen_ai.usage.output_tokens must be an integer"},
		"deep attribute":     {with("gen_ai.conversation.id", []any{[]any{[]any{"x"}}}), "gen_ai.conversation.id must be a string"},
		"cached over all":    {with("gen_ai.usage.cache_read.input_tokens", schema.MaxCount), "input_tokens must include the cache_* tokens"},
	} {
		// The first span is good and has the id of the case's own trace.
		traces := genAI(t, chat("good"), c.attributes)
		for _, s := range traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			s.SetTraceID(pcommon.TraceID([]byte(name + strings.Repeat(" ", 16))[:16]))
		}
		a := f.export(t, "application/x-protobuf", inProto(t, traces))
		body := string(a.body)
		if a.status != 200 || !strings.Contains(body, "1 of 2 spans") || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d, %q, want one rejected because %q", name, a.status, body, c.want)
		}
	}
	for _, e := range f.events(t, 9) {
		if e.Agent != "good" {
			t.Errorf("%q was recorded", e.Agent)
		}
	}
}

// A span that began too long ago, or in the future, is rejected like any event.
func TestTracesChecksTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		start uint64
		want  string
	}{
		"1970":       {1, "must not be older than 30 days"},
		"the future": {uint64(time.Now().Add(time.Hour).UnixNano()), "must not be more than 5 minutes ahead"},
		"the end":    {1<<64 - 1, "timestamp must not be"},
		"2262":       {1<<63 - 1, "must not be more than 5 minutes ahead"},
	} {
		traces := genAI(t, chat("a"))
		traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetStartTimestamp(pcommon.Timestamp(c.start))
		a := f.export(t, "application/json", inJSON(t, traces))
		if rejected, message := partial(t, a); rejected != "1" || !strings.Contains(message, c.want) {
			t.Errorf("%s: rejected %q, %q, want %q", name, rejected, message, c.want)
		}
	}
}

// oneCapped refuses the events of one agent, and says of another that nobody knows.
type oneCapped struct{ noCaps }

func (oneCapped) Admit(_ context.Context, e *schema.Event) (*lease.Charge, error) {
	switch e.Agent {
	case "capped":
		return nil, &lease.ExceededError{Standing: lease.Standing{Budget: budget.Budget{Scope: budget.Scope{Agent: "capped"}, Limit: 50, Period: budget.Day}}}
	case "unknown":
		return nil, context.DeadlineExceeded
	}
	return nil, nil
}

// A cap rejects the spans of its agent only. When it cannot be asked, exporters
// have to send all again, and they do that after 503 but never after 500.
func TestTracesAndCaps(t *testing.T) {
	t.Parallel()
	f := newFixtureWithCaps(t, oneCapped{})
	a := f.export(t, "application/json", inJSON(t, genAI(t, chat("free"), chat("capped"))))
	if rejected, message := partial(t, a); a.status != 200 || rejected != "1" || !strings.Contains(message, "budget cap") {
		t.Errorf("status %d, rejected %q, %q, want one over the cap", a.status, rejected, message)
	}
	a = f.export(t, "application/json", inJSON(t, genAI(t, chat("free"), chat("unknown"))))
	if a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.HasPrefix(string(a.body), `{"code":14,"message":"The budget cannot`) {
		t.Errorf("status %d, Retry-After %q, %s, want 503 after a second", a.status, a.header.Get("Retry-After"), a.body)
	}
	if e := f.events(t, 1)[0]; e.Agent != "free" {
		t.Errorf("%q was recorded", e.Agent)
	}
}

// A request that is refused as a whole is answered with a google.rpc.Status in its
// own encoding.
func TestTracesRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	good := inProto(t, genAI(t, chat("a")))
	for name, c := range map[string]struct {
		contentType  string
		body         []byte
		headers      []string
		status, code int
	}{
		"no key":                  {"application/x-protobuf", good, []string{"Authorization", ""}, 401, 16},
		"no key, JSON":            {"application/json", []byte(`{}`), []string{"Authorization", "Bearer x"}, 401, 16},
		"another media type":      {"text/plain", good, nil, 415, 3},
		"another coding":          {"application/x-protobuf", good, []string{"Content-Encoding", "br"}, 415, 3},
		"not gzip":                {"application/x-protobuf", good, []string{"Content-Encoding", "gzip"}, 400, 3},
		"malformed protobuf":      {"application/x-protobuf", good[:len(good)-1], nil, 400, 3},
		"malformed JSON":          {"application/json", []byte(`{"resourceSpans":[`), nil, 400, 3},
		"protobuf called JSON":    {"application/json", good, nil, 400, 3},
		"too large":               {"application/json", []byte(`{"a":"` + strings.Repeat("a", 4<<20) + `"}`), nil, 413, 3},
		"too large, inflated":     {"application/json", gzipped(t, []byte(`{"a":"`+strings.Repeat("a", 4<<20)+`"}`)), []string{"Content-Encoding", "gzip"}, 413, 3},
		"too many spans":          {"application/json", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat(`{},`, 10_000) + `{}]}]}]}`), nil, 413, 3},
		"more than memory allows": {"application/json", []byte(`{"resourceSpans":[` + strings.Repeat(`null,`, 300_000) + `null]}`), nil, 413, 3},
	} {
		a := f.export(t, c.contentType, c.body, c.headers...)
		if a.status != c.status {
			t.Errorf("%s: status %d, want %d", name, a.status, c.status)
		}
		if code := statusCode(t, a); code != c.code {
			t.Errorf("%s: code %d in %q, want %d", name, code, a.body, c.code)
		}
	}
	f.export(t, "application/x-protobuf", inProto(t, genAI(t, chat("marker"))))
	if e := f.events(t, 1); len(e) != 1 || e[0].Agent != "marker" {
		t.Errorf("recorded: %v", e)
	}
}

// statusCode returns the code of a google.rpc.Status, which has a message too.
func statusCode(t testing.TB, a exported) int {
	t.Helper()
	if a.header.Get("Content-Type") == "application/json" {
		var status struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(a.body, &status); err != nil || status.Message == "" {
			t.Errorf("%q is no status: %v", a.body, err)
		}
		return status.Code
	}
	_, _, n := protowire.ConsumeTag(a.body)
	code, m := protowire.ConsumeVarint(a.body[max(n, 0):])
	if n < 0 || m < 0 || len(a.body) <= n+m {
		t.Errorf("%x is no status with a message", a.body)
	}
	return int(code)
}

// While Kafka is away nobody knows what was recorded: 503, so that the exporter
// sends the spans again.
func TestTracesAsksForARetryWithoutKafka(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.ProduceTimeout = 100 * time.Millisecond })
	f.cluster.Close()
	a := f.export(t, "application/x-protobuf", inProto(t, genAI(t, chat("a"))))
	if a.status != 503 || a.header.Get("Retry-After") == "" || statusCode(t, a) != 14 {
		t.Errorf("status %d, Retry-After %q, want 503 with one", a.status, a.header.Get("Retry-After"))
	}
}

// Calls count against the plan, one event each, and other spans do not. What does
// not fit is refused as a whole, in a way that exporters send again.
func TestTracesCountsCallsAgainstThePlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	limits := &testLimits{limit: 3, left: 3}
	f.ingest.limits = limits
	other := map[string]any{"http.request.method": "POST"}
	for i, c := range []struct {
		spans        []map[string]any
		status       int
		left         int64
		retry, named string
	}{
		{[]map[string]any{other, other}, 200, 3, "", ""},
		{[]map[string]any{chat("a"), other, chat("a")}, 200, 1, "", ""},
		{[]map[string]any{chat("b"), chat("b")}, 429, 1, "41", `{"code":8,`},
		{[]map[string]any{chat("a")}, 200, 0, "", ""},
		{[]map[string]any{other}, 429, 0, "41", `{"code":8,`},
	} {
		a := f.export(t, "application/json", inJSON(t, genAI(t, c.spans...)))
		if a.status != c.status || limits.left != c.left || a.header.Get("Retry-After") != c.retry || !strings.HasPrefix(string(a.body), c.named) {
			t.Errorf("request %d: status %d, %d left, Retry-After %q, %s; want %+v", i, a.status, limits.left, a.header.Get("Retry-After"), a.body, c)
		}
		if a.header.Get("X-RateLimit-Remaining") == "" {
			t.Errorf("request %d: no X-RateLimit-Remaining", i)
		}
	}
}
