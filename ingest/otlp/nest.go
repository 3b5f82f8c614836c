package otlp

import "go.opentelemetry.io/collector/pdata/pcommon"

// spanID names a span. Span ids are unique within their trace only.
type spanID struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// nest is how the spans of one request lie inside each other. Spans that came in
// another request are not known.
type nest struct {
	views []view
	at    map[spanID]int
}

func newNest(views []view) nest {
	n := nest{views, make(map[spanID]int, len(views))}
	for i := range views {
		n.at[spanID{views[i].span.TraceID(), views[i].span.SpanID()}] = i
	}
	return n
}

// none is the index of no span.
const none = -1

// calls returns the call of each span, nil for a span that is none.
func (n nest) calls() []*Call {
	calls := make([]*Call, len(n.views))
	for i := range n.views {
		if n.views[i].isCall() {
			calls[i] = n.views[i].call()
		}
	}
	n.dropWrappers(calls)
	for i, parent := range n.nearest(calls) {
		if calls[i] != nil && parent != none {
			calls[i].ParentKey = calls[parent].Key
		}
	}
	return calls
}

// dropWrappers takes away the spans that tell what the calls inside of them tell
// as well. A framework and the client library that it uses may both make a span
// for one call; then the inner one stays.
func (n nest) dropWrappers(calls []*Call) {
	inside := make(map[int]usage)
	for i, outer := range n.nearest(calls) {
		if outer == none || calls[i] == nil || !calls[i].hasUsage() {
			continue
		}
		u, sum := calls[i].usage(), inside[outer]
		inside[outer] = usage{sum.input + u.input, sum.output + u.output}
	}
	for i, sum := range inside {
		if c := calls[i]; !callsModel(c.Step) || !c.hasUsage() || c.usage() == sum {
			calls[i] = nil
		}
	}
}

// nearest returns, for each span, the index of the closest call that it lies
// inside of. Every span is visited once, whatever the parents look like.
func (n nest) nearest(calls []*Call) []int {
	const unknown = -2
	above := make([]int, len(n.views))
	for i := range above {
		above[i] = unknown
	}
	var path []int
	for i := range above {
		path = path[:0]
		found, at := none, i
		for {
			if above[at] != unknown {
				found = above[at]
				break
			}
			// A ring of parents comes back to here and ends.
			above[at] = none
			path = append(path, at)
			parent, ok := n.parent(at)
			if !ok {
				break
			}
			if calls[parent] != nil {
				found = parent
				break
			}
			at = parent
		}
		for _, p := range path {
			above[p] = found
		}
	}
	return above
}

// parent returns the index of the span's parent, if it is in the request. No span
// is its own.
func (n nest) parent(i int) (int, bool) {
	s := n.views[i].span
	if s.ParentSpanID().IsEmpty() || s.ParentSpanID() == s.SpanID() {
		return none, false
	}
	parent, ok := n.at[spanID{s.TraceID(), s.ParentSpanID()}]
	return parent, ok
}
