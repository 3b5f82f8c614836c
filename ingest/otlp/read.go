package otlp

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Read reads an ExportTraceServiceRequest. It returns ErrMalformed for a body
// that is none, ErrTooMany or ErrTooDeep for one that is beyond the limits.
// Nothing that it returns refers to body.
func Read(body []byte, e Encoding) (Export, error) {
	traces, err := unmarshal(body, e)
	if err != nil {
		return Export{}, err
	}
	if n := traces.SpanCount(); n > MaxSpans {
		return Export{}, fmt.Errorf("%d spans: %w", n, ErrTooMany)
	}
	return export(viewsOf(traces)), nil
}

// unmarshal reads the body as TracesData, which has the same form as the request.
// The request's own package would link the whole of gRPC into the program.
func unmarshal(body []byte, e Encoding) (ptrace.Traces, error) {
	if err := check(body, e); err != nil {
		return ptrace.Traces{}, err
	}
	var u ptrace.Unmarshaler = new(ptrace.ProtoUnmarshaler)
	if e == JSON {
		u = new(ptrace.JSONUnmarshaler)
	}
	traces, err := u.UnmarshalTraces(body)
	if err != nil {
		return ptrace.Traces{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return traces, nil
}

// viewsOf returns all spans in their order.
func viewsOf(traces ptrace.Traces) []view {
	views := make([]view, 0, traces.SpanCount())
	for _, rs := range traces.ResourceSpans().All() {
		service := ""
		if value, ok := rs.Resource().Attributes().Get("service.name"); ok && value.Type() == pcommon.ValueTypeStr {
			service = value.Str()
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				views = append(views, newView(s, service))
			}
		}
	}
	return views
}

// export turns the spans of a request into its calls.
func export(views []view) Export {
	n := newNest(views)
	calls := n.calls()
	e := Export{Calls: make([]Call, 0, len(calls))}
	for i := range views {
		switch call := calls[i]; {
		case call != nil:
			e.Calls = append(e.Calls, *call)
		case views[i].genAI:
			e.Wrappers++
		default:
			e.Others++
		}
	}
	return e
}
