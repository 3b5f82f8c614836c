package otlp

import "slices"

// node is a span among those of its request.
type node struct {
	spanID
	parent [8]byte
	// call is the index of the span's call, or none.
	call  int
	genAI bool
}

// nest is how the spans of one request lie inside each other. Spans that came in
// another request are not known.
type nest struct {
	spans []node
	calls []Call
	// parents has the index of each span's parent, or none.
	parents []int
}

// none is the index of no span.
const none = -1

// dropWrappers takes the call from spans that only wrap other calls, whose tokens would be
// counted twice, and sets for each remaining call its parent call.
func dropWrappers(spans []node, calls []Call) {
	if !slices.ContainsFunc(spans, node.hasParent) {
		return
	}
	n := nest{spans, calls, parentsOf(spans)}
	n.dropSums()
	for i, outer := range n.nearest() {
		if n.spans[i].call != none && outer != none {
			n.call(i).ParentKey = n.call(outer).Key
		}
	}
}

// hasParent reports whether the span names a parent. No span is its own.
func (n node) hasParent() bool { return n.parent != [8]byte{} && n.parent != n.span }

// parentsOf returns the index of each span's parent, or none.
func parentsOf(spans []node) []int {
	at := make(map[spanID]int, len(spans))
	for i := range spans {
		at[spans[i].spanID] = i
	}
	parents := make([]int, len(spans))
	for i := range spans {
		parents[i] = none
		if !spans[i].hasParent() {
			continue
		}
		if parent, ok := at[spanID{spans[i].trace, spans[i].parent}]; ok {
			parents[i] = parent
		}
	}
	return parents
}

// call returns the call of a span that has one.
func (n nest) call(i int) *Call { return &n.calls[n.spans[i].call] }

// dropSums drops the calls whose usage is the sum of the calls inside of them. A framework
// and the client library that it uses may both make a span for one call; then the inner
// one stays.
func (n nest) dropSums() {
	inside := make(map[int]usage)
	for i, outer := range n.nearest() {
		if outer == none || n.spans[i].call == none || !n.call(i).hasUsage() {
			continue
		}
		u, sum := n.call(i).usage(), inside[outer]
		inside[outer] = usage{sum.input + u.input, sum.output + u.output}
	}
	for i, sum := range inside {
		if c := n.call(i); !callsModel(c.Step) || !c.hasUsage() || c.usage() == sum {
			n.spans[i].call = none
		}
	}
}

// nearest returns, for each span, the index of the closest call that it lies
// inside of. Every span is visited once, whatever the parents look like.
func (n nest) nearest() []int {
	const unknown = -2
	above := make([]int, len(n.spans))
	for i := range above {
		above[i] = unknown
	}
	var path []int
	for i := range above {
		path = path[:0]
		found, here := none, i
		for {
			if above[here] != unknown {
				found = above[here]
				break
			}
			// A ring of parents comes back to here and ends.
			above[here] = none
			path = append(path, here)
			parent := n.parents[here]
			if parent == none {
				break
			}
			if n.spans[parent].call != none {
				found = parent
				break
			}
			here = parent
		}
		for _, p := range path {
			above[p] = found
		}
	}
	return above
}
