package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"
)

// offerSpans sends n odd spans, each a call of a model, and returns how many were
// taken. No request may be answered with anything but 200.
func offerSpans(t *testing.T, url, secret string, odd *oddBodies, n int) (accepted int) {
	t.Helper()
	const batch = 100
	for sent := 0; sent < n; sent += batch {
		traces, isText := odd.spans(batch)
		var m ptrace.Marshaler = new(ptrace.ProtoMarshaler)
		contentType := "application/x-protobuf"
		if isText && odd.r.IntN(2) == 0 {
			m, contentType = new(ptrace.JSONMarshaler), "application/json"
		}
		body, err := m.MarshalTraces(traces)
		if err != nil {
			t.Fatal(err)
		}
		accepted += batch - int(export(t, url, secret, contentType, body))
	}
	return accepted
}

// export sends spans and returns how many were rejected.
func export(t *testing.T, url, secret, contentType string, body []byte) (rejected int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d for %s: %.500s", resp.StatusCode, contentType, answer)
	}
	if contentType == "application/json" {
		var a struct {
			PartialSuccess struct {
				RejectedSpans int64 `json:",string"`
			}
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			t.Fatalf("the answer is not JSON: %v: %.300s", err, answer)
		}
		return a.PartialSuccess.RejectedSpans
	}
	return rejectedSpans(t, answer)
}

// rejectedSpans reads an ExportTraceServiceResponse in protobuf: field 1 is the
// partial success, and field 1 of that the number.
func rejectedSpans(t *testing.T, answer []byte) int64 {
	t.Helper()
	if len(answer) == 0 {
		return 0
	}
	_, _, n := protowire.ConsumeTag(answer)
	partial, m := protowire.ConsumeBytes(answer[max(0, n):])
	if n < 0 || m < 0 {
		t.Fatalf("the answer is no protobuf: %q", answer)
	}
	if len(partial) == 0 || partial[0] != 1<<3 {
		return 0
	}
	rejected, n := protowire.ConsumeVarint(partial[1:])
	if n < 0 {
		t.Fatalf("the answer is no protobuf: %q", answer)
	}
	return int64(rejected)
}

// oddAttributes are those that a span becomes an event by, besides that it is a call.
var oddAttributes = []string{
	"gen_ai.agent.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.response.model", "gen_ai.request.model", "gen_ai.conversation.id", "error.type",
	"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.prompt_tokens", "gen_ai.usage.cache_read.input_tokens",
	"gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens",
}

// spans makes an export of n calls whose values are at and beyond the edges of what is
// allowed. isText means that all of its texts are UTF-8, without which it cannot be
// JSON.
func (o *oddBodies) spans(n int) (traces ptrace.Traces, isText bool) {
	traces = ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	service, isText := "shop", true
	if o.r.IntN(3) == 0 {
		service, isText = o.raw(200)
	}
	rs.Resource().Attributes().PutStr("service.name", service)
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for range n {
		isText = o.span(spans.AppendEmpty()) && isText
	}
	return traces, isText
}

func (o *oddBodies) span(s ptrace.Span) (isText bool) {
	o.made++
	// No two are the same: a repeated span is stored once.
	s.SetTraceID(pcommon.TraceID{0: 1, 12: byte(o.made >> 24), 13: byte(o.made >> 16), 14: byte(o.made >> 8), 15: byte(o.made)})
	s.SetSpanID(pcommon.SpanID{0: byte(o.r.Uint32() | 1), 7: byte(o.r.Uint32())})
	if o.r.IntN(3) == 0 {
		s.SetParentSpanID(pcommon.SpanID{0: byte(o.r.Uint32()), 1: 1})
	}
	s.SetKind(ptrace.SpanKindClient)
	start := o.time()
	s.SetStartTimestamp(start)
	s.SetEndTimestamp(start + pcommon.Timestamp(o.r.Int64N(10_000_000_000)))
	if o.r.IntN(10) == 0 {
		s.SetEndTimestamp(o.time())
	}
	name, isText := o.raw(200)
	s.SetName(name)
	if o.r.IntN(5) == 0 {
		s.Status().SetCode(ptrace.StatusCodeError)
		message, ok := o.raw(1000)
		s.Status().SetMessage(message)
		isText = isText && ok
	}
	s.Attributes().PutStr("gen_ai.operation.name", "chat")
	for _, name := range oddAttributes {
		if o.r.IntN(3) == 0 {
			isText = o.attribute(s.Attributes().PutEmpty(name), strings.Contains(name, "tokens"), 2) && isText
		}
	}
	return isText
}

// time is mostly one that is accepted.
func (o *oddBodies) time() pcommon.Timestamp {
	switch o.r.IntN(20) {
	case 0:
		return pcommon.Timestamp(o.r.Uint64())
	case 1:
		return pcommon.Timestamp([]uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}[o.r.IntN(5)])
	}
	return pcommon.NewTimestampFromTime(time.Now().Add(-time.Duration(o.r.Int64N(int64(29 * 24 * time.Hour)))))
}

// attribute sets a value, mostly of the kind that is wanted.
func (o *oddBodies) attribute(v pcommon.Value, count bool, depth int) (isText bool) {
	switch n := o.r.IntN(60); {
	case n == 0:
		v.SetBool(true)
	case n == 1:
		v.SetDouble([]float64{0, math.Copysign(0, -1), 0.5, 7, 1 << 53, 1e300, math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64}[o.r.IntN(9)])
	case n == 2:
		v.SetEmptyBytes().FromRaw([]byte("\x00\xff"))
	case n == 3 && depth > 0:
		return o.attribute(v.SetEmptySlice().AppendEmpty(), count, depth-1)
	case n == 4 && depth > 0:
		key, ok := o.raw(20)
		return o.attribute(v.SetEmptyMap().PutEmpty(key), count, depth-1) && ok
	case count && n == 5:
		v.SetStr(o.number())
	case count && n < 10:
		v.SetInt([]int64{0, 1, 1 << 40, 1<<53 - 1, 1 << 53, -1, math.MaxInt64, math.MinInt64}[o.r.IntN(8)])
	case count:
		v.SetInt(o.r.Int64N(100_000))
	default:
		text, ok := o.raw(200)
		v.SetStr(text)
		return ok
	}
	return true
}

// raw is a text as it is, not as JSON spells it. isText means that it is UTF-8.
func (o *oddBodies) raw(limit int) (text string, isText bool) {
	quoted := o.text(limit)
	if err := json.Unmarshal([]byte(quoted), &text); err != nil || !utf8.ValidString(quoted) {
		text = strings.Trim(quoted, `"`)
	}
	return text, utf8.ValidString(text)
}
