package ingest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/outlayhq/outlay/ingest/otlp"
)

// requestSource makes requests out of a number of bodies, which are used again
// and again; only the ids of their spans change each time, because Outlay records
// a span that is sent again once.
type requestSource struct {
	path, contentType string
	// events is how many each body has.
	events int
	bodies []sourceBody
	// ids counts the spans of all sources.
	ids *uint32
}

// sourceBody is a body and where the ids of its spans are.
type sourceBody struct {
	text []byte
	ids  []int
}

// spanMark is the first half of the benchmark's span ids, to find them by. The
// other half is a number.
const spanMark = 0xfeedc0de

// take returns n requests that were never made before. head is the request line
// and the headers that do not depend on the body.
func (s *requestSource) take(head string, n int) [][]byte {
	requests := make([][]byte, n)
	for i := range requests {
		body := s.bodies[i%len(s.bodies)]
		request := make([]byte, 0, len(head)+len(body.text)+80)
		request = fmt.Appendf(append(request, head...), "Content-Type: %s\r\nContent-Length: %d\r\n\r\n", s.contentType, len(body.text))
		start := len(request)
		request = append(request, body.text...)
		for _, at := range body.ids {
			*s.ids++
			s.setID(request[start+at:])
		}
		requests[i] = request
	}
	return requests
}

// setID writes the second half of a span id.
func (s *requestSource) setID(dst []byte) {
	number := binary.BigEndian.AppendUint32(nil, *s.ids)
	if s.contentType == otlp.Protobuf.ContentType() {
		copy(dst, number)
		return
	}
	hex.Encode(dst, number)
}

func trackRequests(events int) *requestSource {
	s := &requestSource{path: "/v1/track", contentType: "application/json", events: events}
	bodies := trackBodies()
	if events > 1 {
		s.path, bodies = "/v1/track/batch", batchBodies(events)
	}
	for _, body := range bodies {
		s.bodies = append(s.bodies, sourceBody{text: []byte(body)})
	}
	return s
}

// spanRequests are the events of trackBodies as spans of the GenAI conventions.
func spanRequests(b *testing.B, ids *uint32, encoding otlp.Encoding, events int) *requestSource {
	b.Helper()
	s := &requestSource{path: "/v1/traces", contentType: encoding.ContentType(), events: events, ids: ids}
	singles := trackBodies()
	for len(singles) >= events {
		s.bodies = append(s.bodies, spanBody(b, encoding, singles[:events]))
		singles = singles[events:]
	}
	return s
}

func spanBody(b *testing.B, encoding otlp.Encoding, events []string) sourceBody {
	b.Helper()
	traces := ptrace.NewTraces()
	resource := traces.ResourceSpans().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "fleet")
	spans := resource.ScopeSpans().AppendEmpty().Spans()
	for _, event := range events {
		setSpan(b, spans.AppendEmpty(), event)
	}
	var marshaler ptrace.Marshaler = new(ptrace.ProtoMarshaler)
	mark := binary.BigEndian.AppendUint32(nil, spanMark)
	if encoding == otlp.JSON {
		marshaler = new(ptrace.JSONMarshaler)
		mark = hex.AppendEncode(nil, mark)
	}
	text, err := marshaler.MarshalTraces(traces)
	if err != nil {
		b.Fatal(err)
	}
	body := sourceBody{text: text}
	for at := 0; ; {
		found := bytes.Index(text[at:], mark)
		if found < 0 {
			break
		}
		at += found + len(mark)
		body.ids = append(body.ids, at)
	}
	if len(body.ids) != len(events) {
		b.Fatalf("%d span ids were found in the body of %d spans", len(body.ids), len(events))
	}
	return body
}

// setSpan makes the span that tells what the JSON of an event tells.
func setSpan(b *testing.B, s ptrace.Span, event string) {
	b.Helper()
	var e struct {
		Agent, Model string
		Input        int64  `json:"input_tokens"`
		Output       int64  `json:"output_tokens"`
		Latency      int64  `json:"latency_ms"`
		Session      string `json:"session_id"`
		Metadata     struct {
			Environment, Region, Team string
			Attempt                   int64
			Trace                     string `json:"trace_id"`
		}
	}
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		b.Fatal(err)
	}
	var trace pcommon.TraceID
	if _, err := hex.Decode(trace[:], []byte(e.Metadata.Trace)); err != nil {
		b.Fatal(err)
	}
	s.SetTraceID(trace)
	s.SetSpanID(pcommon.SpanID(binary.BigEndian.AppendUint64(nil, spanMark<<32)))
	s.SetName("chat " + e.Model)
	s.SetKind(ptrace.SpanKindClient)
	end := time.Now()
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(end.Add(-time.Duration(e.Latency) * time.Millisecond)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.agent.name", e.Agent)
	a.PutStr("gen_ai.conversation.id", e.Session)
	a.PutStr("gen_ai.request.model", e.Model)
	a.PutInt("gen_ai.usage.input_tokens", e.Input)
	a.PutInt("gen_ai.usage.output_tokens", e.Output)
	a.PutStr("environment", e.Metadata.Environment)
	a.PutStr("region", e.Metadata.Region)
	a.PutStr("team", e.Metadata.Team)
	a.PutInt("attempt", e.Metadata.Attempt)
}
