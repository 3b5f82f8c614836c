package otlp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/outlayhq/outlay/schema"
)

var started = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// spanOf makes a client span of 1.5 s with the given number as its id.
func spanOf(id byte, attributes map[string]any) ptrace.Span {
	s := ptrace.NewSpan()
	s.SetTraceID(pcommon.TraceID{0x4b, 15: 1})
	s.SetSpanID(pcommon.SpanID{0xf0, 7: id})
	s.SetKind(ptrace.SpanKindClient)
	s.SetName("chat gpt-4o")
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(started))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(started.Add(1500 * time.Millisecond)))
	if err := s.Attributes().FromRaw(attributes); err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}

// inside makes s a child of the span with the given number.
func inside(parent byte, s ptrace.Span) ptrace.Span {
	s.SetParentSpanID(pcommon.SpanID{0xf0, 7: parent})
	return s
}

const testTrace = "4b000000000000000000000000000001"

func keyOfTest(id byte) string {
	return spanID{[16]byte{0x4b, 15: 1}, [8]byte{0xf0, 7: id}}.key(new(strings.Builder))
}

// tracesOf puts spans into an export of one service.
func tracesOf(spans ...ptrace.Span) ptrace.Traces {
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	slice := rs.ScopeSpans().AppendEmpty().Spans()
	for _, s := range spans {
		s.CopyTo(slice.AppendEmpty())
	}
	return traces
}

// readBoth reads an export in both encodings, which must say the same.
func readBoth(t *testing.T, traces ptrace.Traces) Export {
	t.Helper()
	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	json, err := new(ptrace.JSONMarshaler).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	fromProto, err := new(Reader).Read(proto, Protobuf)
	if err != nil {
		t.Fatalf("Read(protobuf): %v", err)
	}
	fromJSON, err := new(Reader).Read(json, JSON)
	if err != nil {
		t.Fatalf("Read(%s): %v", json, err)
	}
	if diff := cmp.Diff(fromProto, fromJSON); diff != "" {
		t.Errorf("protobuf and JSON differ (-protobuf +JSON):\n%s", diff)
	}
	return fromProto
}

// A span is read alike under the current and the former names of its attributes.
func TestReadKnowsCurrentAndFormerNames(t *testing.T) {
	t.Parallel()
	base := func(change func(*Call)) Call {
		c := Call{
			Key: keyOfTest(1), Agent: "shop", SessionID: testTrace,
			Provider: "openai", Model: "gpt-4o-2024-08-06", Step: "chat", Start: started, LatencyMS: 1500,
			Input: Count{1200, "gen_ai.usage.input_tokens"}, Output: Count{300, "gen_ai.usage.output_tokens"},
		}
		if change != nil {
			change(&c)
		}
		return c
	}
	for name, c := range map[string]struct {
		attributes map[string]any
		want       Call
	}{
		"current": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
			"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 300,
			"gen_ai.usage.cache_read.input_tokens": 1000, "gen_ai.usage.cache_write.input_tokens": 50,
			"gen_ai.usage.reasoning.output_tokens": 128,
			"gen_ai.conversation.id":               "conv_1", "gen_ai.agent.name": "planner",
		}, base(func(c *Call) {
			c.SessionID, c.Agent = "conv_1", "planner"
			c.CacheRead = Count{1000, "gen_ai.usage.cache_read.input_tokens"}
			c.CacheWrite = Count{50, "gen_ai.usage.cache_write.input_tokens"}
			c.Reasoning = Count{128, "gen_ai.usage.reasoning.output_tokens"}
		})},
		"of version 1.41": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 300, "gen_ai.usage.cache_creation.input_tokens": 50,
		}, base(func(c *Call) {
			c.CacheWrite = Count{50, "gen_ai.usage.cache_creation.input_tokens"}
		})},
		"of version 1.26": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.response.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.prompt_tokens": 1200, "gen_ai.usage.completion_tokens": 300,
		}, base(func(c *Call) {
			c.Input.Name, c.Output.Name = "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"
		})},
		"of OpenLLMetry": {map[string]any{
			"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.prompt_tokens": 1200, "gen_ai.usage.completion_tokens": 300,
			"gen_ai.usage.cache_read_input_tokens": 10, "gen_ai.usage.cache_creation_input_tokens": 20, "gen_ai.usage.reasoning_tokens": 30,
		}, base(func(c *Call) {
			c.Input.Name, c.Output.Name = "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"
			c.CacheRead = Count{10, "gen_ai.usage.cache_read_input_tokens"}
			c.CacheWrite = Count{20, "gen_ai.usage.cache_creation_input_tokens"}
			c.Reasoning = Count{30, "gen_ai.usage.reasoning_tokens"}
		})},
		"current before former": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.system": "azure",
			"gen_ai.response.model": "gpt-4o-2024-08-06", "gen_ai.request.model": "my-deployment",
			"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.prompt_tokens": 7,
			"gen_ai.usage.output_tokens": 300, "gen_ai.usage.completion_tokens": 8,
		}, base(nil)},
		"counts as doubles and strings": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": 1200.0, "gen_ai.usage.output_tokens": "300",
		}, base(nil)},
		"cached tokens left out of the input": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read.input_tokens": 1000, "gen_ai.usage.cache_write.input_tokens": 100,
			"gen_ai.usage.output_tokens": 100, "gen_ai.usage.reasoning.output_tokens": 200,
		}, base(func(c *Call) {
			c.CacheRead = Count{1000, "gen_ai.usage.cache_read.input_tokens"}
			c.CacheWrite = Count{100, "gen_ai.usage.cache_write.input_tokens"}
			c.Reasoning = Count{200, "gen_ai.usage.reasoning.output_tokens"}
		})},
		"no usage, an error": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-2024-08-06",
			"error.type": "timeout",
		}, base(func(c *Call) {
			c.Input, c.Output, c.Failed, c.ErrorType = Count{}, Count{}, true, "timeout"
		})},
		"an operation that is not known": {map[string]any{
			"gen_ai.operation.name": "rerank", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 300,
		}, base(func(c *Call) { c.Step = "rerank" })},
		"counts that are none": {map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-2024-08-06",
			"gen_ai.usage.input_tokens": -1, "gen_ai.usage.output_tokens": "many", "gen_ai.usage.cache_read.input_tokens": 1.5,
			"gen_ai.usage.reasoning.output_tokens": []any{1}, "gen_ai.conversation.id": map[string]any{"a": 1},
		}, base(func(c *Call) {
			c.Input, c.Output = Count{0, "gen_ai.usage.input_tokens"}, Count{0, "gen_ai.usage.output_tokens"}
			c.CacheRead, c.Reasoning = Count{0, "gen_ai.usage.cache_read.input_tokens"}, Count{0, "gen_ai.usage.reasoning.output_tokens"}
			c.Faults = schema.Faults{
				{Field: "gen_ai.conversation.id", Message: "must be a string"},
				{Field: "gen_ai.usage.input_tokens", Message: schema.CountFault},
				{Field: "gen_ai.usage.output_tokens", Message: schema.CountFault},
				{Field: "gen_ai.usage.cache_read.input_tokens", Message: schema.CountFault},
				{Field: "gen_ai.usage.reasoning.output_tokens", Message: schema.CountFault},
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := readBoth(t, tracesOf(spanOf(1, c.attributes)))
			if diff := cmp.Diff(Export{Calls: []Call{c.want}}, got); diff != "" {
				t.Errorf("Read differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Only the client's side of a call of a model is one.
func TestReadLeavesOutWhatIsNoCall(t *testing.T) {
	t.Parallel()
	operation := func(name string) map[string]any {
		return map[string]any{
			"gen_ai.operation.name": name, "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 10,
		}
	}
	server := spanOf(1, operation("chat"))
	server.SetKind(ptrace.SpanKindServer)
	for name, c := range map[string]struct {
		span             ptrace.Span
		wrappers, others int
	}{
		"http":                  {spanOf(1, map[string]any{"http.request.method": "POST"}), 0, 1},
		"no attributes":         {spanOf(1, nil), 0, 1},
		"server":                {server, 1, 0},
		"agent":                 {spanOf(1, operation("invoke_agent")), 1, 0},
		"tool":                  {spanOf(1, operation("execute_tool")), 1, 0},
		"workflow":              {spanOf(1, operation("invoke_workflow")), 1, 0},
		"chain":                 {spanOf(1, operation("chain")), 1, 0},
		"plan":                  {spanOf(1, operation("plan")), 1, 0},
		"retrieval":             {spanOf(1, operation("retrieval")), 1, 0},
		"memory":                {spanOf(1, operation("search_memory")), 1, 0},
		"OpenLLMetry workflow":  {spanOf(1, map[string]any{"traceloop.span.kind": "workflow", "gen_ai.request.model": "gpt-4o", "gen_ai.system": "openai"}), 1, 0},
		"no model":              {spanOf(1, map[string]any{"gen_ai.provider.name": "openai"}), 1, 0},
		"only the conversation": {spanOf(1, map[string]any{"gen_ai.conversation.id": "c"}), 1, 0},
	} {
		got := readBoth(t, tracesOf(c.span))
		if len(got.Calls) != 0 || got.Wrappers != c.wrappers || got.Others != c.others {
			t.Errorf("%s: %d calls, %d wrappers, %d others, want 0, %d, %d", name, len(got.Calls), got.Wrappers, got.Others, c.wrappers, c.others)
		}
	}
}

// usageOf are the attributes of a call of the operation.
func usageOf(operation string, input, output int) map[string]any {
	return map[string]any{
		"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
		"gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": output,
	}
}

// No token is counted twice: a span that sums up calls inside of it is left out,
// one that used more than they did stays and becomes their parent.
func TestReadLeavesOutWrappers(t *testing.T) {
	t.Parallel()
	type found struct{ Key, Parent string }
	for name, c := range map[string]struct {
		spans []ptrace.Span
		want  []found
	}{
		"framework and client library": {
			[]ptrace.Span{spanOf(1, usageOf("chat", 10, 5)), inside(1, spanOf(2, usageOf("chat", 10, 5)))},
			[]found{{keyOfTest(2), ""}},
		},
		"child first, with spans between": {
			[]ptrace.Span{inside(9, spanOf(2, usageOf("chat", 10, 5))), inside(1, spanOf(9, nil)), spanOf(1, usageOf("chat", 10, 5))},
			[]found{{keyOfTest(2), ""}},
		},
		"sum of two": {
			[]ptrace.Span{spanOf(1, usageOf("run", 30, 7)), inside(1, spanOf(2, usageOf("chat", 10, 5))), inside(1, spanOf(3, usageOf("chat", 20, 2)))},
			[]found{{keyOfTest(2), ""}, {keyOfTest(3), ""}},
		},
		"three layers": {
			[]ptrace.Span{spanOf(1, usageOf("chat", 9, 9)), inside(1, spanOf(2, usageOf("chat", 9, 9))), inside(2, spanOf(3, usageOf("chat", 9, 9)))},
			[]found{{keyOfTest(3), ""}},
		},
		"wrapper without usage": {
			[]ptrace.Span{spanOf(1, map[string]any{"gen_ai.operation.name": "chat"}), inside(1, spanOf(2, usageOf("chat", 10, 5)))},
			[]found{{keyOfTest(2), ""}},
		},
		"another call made inside": {
			[]ptrace.Span{spanOf(1, usageOf("chat", 100, 50)), inside(1, spanOf(2, usageOf("chat", 10, 5)))},
			[]found{{keyOfTest(1), ""}, {keyOfTest(2), keyOfTest(1)}},
		},
		"parent behind a wrapper": {
			[]ptrace.Span{spanOf(1, usageOf("chat", 100, 50)), inside(1, spanOf(2, usageOf("chat", 8, 8))), inside(2, spanOf(3, usageOf("chat", 8, 8)))},
			[]found{{keyOfTest(1), ""}, {keyOfTest(3), keyOfTest(1)}},
		},
		"calls of an agent": {
			[]ptrace.Span{spanOf(1, usageOf("invoke_agent", 30, 7)), inside(1, spanOf(2, usageOf("chat", 10, 5))), inside(1, spanOf(3, usageOf("chat", 20, 2)))},
			[]found{{keyOfTest(2), ""}, {keyOfTest(3), ""}},
		},
		"its own parent": {
			[]ptrace.Span{inside(1, spanOf(1, usageOf("chat", 10, 5)))},
			[]found{{keyOfTest(1), ""}},
		},
		"a ring": {
			[]ptrace.Span{inside(2, spanOf(1, nil)), inside(1, spanOf(2, nil)), inside(1, spanOf(3, usageOf("chat", 10, 5)))},
			[]found{{keyOfTest(3), ""}},
		},
		"the same span twice": {
			[]ptrace.Span{spanOf(1, usageOf("chat", 10, 5)), spanOf(1, usageOf("chat", 10, 5))},
			[]found{{keyOfTest(1), ""}, {keyOfTest(1), ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []found
			export := readBoth(t, tracesOf(c.spans...))
			for _, call := range export.Calls {
				got = append(got, found{call.Key, call.ParentKey})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
			if export.Spans() != len(c.spans) {
				t.Errorf("%d spans are accounted for, want %d", export.Spans(), len(c.spans))
			}
		})
	}
}

// Times that cannot be are not passed on.
func TestReadTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start, end uint64
		wantStart  time.Time
		latency    int64
	}{
		"usual":             {1_000_000_000, 1_001_499_999, time.Unix(1, 0).UTC(), 1},
		"none":              {0, 5, time.Time{}, schema.NoLatency},
		"not ended":         {1_000_000_000, 0, time.Unix(1, 0).UTC(), schema.NoLatency},
		"for centuries":     {1_000_000_000, 1<<64 - 1, time.Unix(1, 0).UTC(), 18446744072710},
		"ends before start": {2_000_000_000, 1_000_000_000, time.Unix(2, 0).UTC(), schema.NoLatency},
	} {
		s := spanOf(1, usageOf("chat", 1, 1))
		s.SetStartTimestamp(pcommon.Timestamp(c.start))
		s.SetEndTimestamp(pcommon.Timestamp(c.end))
		call := readBoth(t, tracesOf(s)).Calls[0]
		if !call.Start.Equal(c.wantStart) || call.LatencyMS != c.latency {
			t.Errorf("%s: start %v, latency %d, want %v, %d", name, call.Start, call.LatencyMS, c.wantStart, c.latency)
		}
	}
}

// The ids of OTLP/JSON are hex, not the base64 of plain protobuf JSON.
func TestReadTakesHexIDs(t *testing.T) {
	t.Parallel()
	export, err := new(Reader).Read([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{
		"traceId":"5b8efff798038103d269b633813fc60c","spanId":"EEE19B7EC3C1B174","kind":3,
		"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
		"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},
			{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}}]}]}]}]}`), JSON)
	if err != nil {
		t.Fatal(err)
	}
	want := Export{Calls: []Call{{
		Key: "5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174", SessionID: "5b8efff798038103d269b633813fc60c", Step: "chat",
		Start: time.Unix(1544712660, 0).UTC(), LatencyMS: 1000, Input: Count{12, "gen_ai.usage.input_tokens"},
	}}}
	if diff := cmp.Diff(want, export); diff != "" {
		t.Errorf("Read differs (-want +got):\n%s", diff)
	}
}

func TestReadNeedsIDs(t *testing.T) {
	t.Parallel()
	s := spanOf(1, usageOf("chat", 1, 1))
	s.SetTraceID(pcommon.TraceID{})
	want := schema.Faults{{Field: "span_id", Message: "and trace_id are required"}}
	if diff := cmp.Diff(want, readBoth(t, tracesOf(s)).Calls[0].Faults); diff != "" {
		t.Errorf("faults differ (-want +got):\n%s", diff)
	}
}

func TestReadTakesAnEmptyExport(t *testing.T) {
	t.Parallel()
	for e, body := range map[Encoding]string{Protobuf: "", JSON: "{}"} {
		if export, err := new(Reader).Read([]byte(body), e); err != nil || export.Spans() != 0 {
			t.Errorf("Read(%q) = %v, %v, want nothing", body, export, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range hostile() {
		if _, err := new(Reader).Read(c.body, c.encoding); !errors.Is(err, c.want) {
			t.Errorf("%s: error = %v, want %v", name, err, c.want)
		}
	}
}

// BenchmarkRead reads what an SDK sends at once: 512 spans, half of them calls.
func BenchmarkRead(b *testing.B) {
	var spans []ptrace.Span
	for i := range 256 {
		s := spanOf(1, usageOf("chat", 1200, 300))
		s.SetSpanID(pcommon.SpanID{1, 6: byte(i >> 8), 7: byte(i)})
		other := spanOf(1, map[string]any{"http.request.method": "POST", "server.address": "api.openai.com", "http.response.status_code": 200})
		other.SetSpanID(pcommon.SpanID{2, 6: byte(i >> 8), 7: byte(i)})
		other.SetParentSpanID(s.SpanID())
		spans = append(spans, s, other)
	}
	traces := tracesOf(spans...)
	proto, err := new(ptrace.ProtoMarshaler).MarshalTraces(traces)
	if err != nil {
		b.Fatal(err)
	}
	json, err := new(ptrace.JSONMarshaler).MarshalTraces(traces)
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]struct {
		body     []byte
		encoding Encoding
	}{"protobuf": {proto, Protobuf}, "json": {json, JSON}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if export, err := new(Reader).Read(c.body, c.encoding); err != nil || len(export.Calls) != 256 {
					b.Fatal(len(export.Calls), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/span")
		})
	}
}
