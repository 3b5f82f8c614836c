package otlp

import (
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// readJSON reads a request of JSON as TracesData, which has the same form: the request's own
// package would link the whole of gRPC into the program. pdata reads recursively and builds
// every message, so the guard bounds depth and number before.
func readJSON(body []byte, found *collected) error {
	var g guard
	if err := g.json(body); err != nil {
		return err
	}
	traces, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if n := traces.SpanCount(); n > MaxSpans {
		return fmt.Errorf("%d spans: %w", n, ErrTooMany)
	}
	found.addAll(traces)
	return nil
}

// addAll notes all spans in their order.
func (c *collected) addAll(traces ptrace.Traces) {
	var r messageReader
	for _, rs := range traces.ResourceSpans().All() {
		service := ""
		if v, ok := rs.Resource().Attributes().Get("service.name"); ok && v.Type() == pcommon.ValueTypeStr {
			service = v.Str()
		}
		first := len(c.calls)
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				c.add(r.read(s))
			}
		}
		c.nameAgents(first, service)
	}
}

// messageReader reads spans that were built as messages.
type messageReader struct {
	span span
	// texts holds the bytes that the span's values refer to.
	texts []byte
}

// read returns what matters of a span, until it is called again.
func (r *messageReader) read(m ptrace.Span) *span {
	r.texts = r.texts[:0]
	r.span = span{
		spanID: spanID{m.TraceID(), m.SpanID()}, parent: m.ParentSpanID(), kind: spanKind(m.Kind()),
		failed: m.Status().Code() == ptrace.StatusCodeError,
		start:  uint64(m.StartTimestamp()), end: uint64(m.EndTimestamp()),
	}
	for name, v := range m.Attributes().All() {
		r.span.attribute(r.keep(name).of(r.texts), r.value(v))
	}
	r.span.texts = r.texts
	return &r.span
}

func (r *messageReader) keep(text string) part {
	start := len(r.texts)
	r.texts = append(r.texts, text...)
	return part{start, len(r.texts)}
}

func (r *messageReader) value(v pcommon.Value) value {
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		return value{}
	case pcommon.ValueTypeStr:
		return value{kind: kindText, text: r.keep(v.Str())}
	case pcommon.ValueTypeInt:
		return value{kind: kindInt, number: uint64(v.Int())}
	case pcommon.ValueTypeDouble:
		return value{kind: kindDouble, number: math.Float64bits(v.Double())}
	}
	return value{kind: kindOther}
}
