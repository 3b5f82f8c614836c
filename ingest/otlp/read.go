package otlp

import (
	"slices"
	"strings"
)

// Reader reads requests into the same memory, one after the other. The zero value is
// ready.
type Reader struct{ found collected }

// Read reads an ExportTraceServiceRequest. It returns ErrMalformed for a body
// that is none, ErrTooMany or ErrTooDeep for one that is beyond the limits.
// Nothing that it returns refers to body. The calls are good until the next Read or
// Reset, their texts for ever.
func (r *Reader) Read(body []byte, e Encoding) (Export, error) {
	read := readProtobuf
	if e == JSON {
		read = readJSON
	}
	r.found.reset()
	if err := read(body, &r.found); err != nil {
		return Export{}, err
	}
	return r.found.export(), nil
}

// maxKeptSpans keeps large requests from holding memory for ever.
const maxKeptSpans = 512

// Reset forgets what was read.
func (r *Reader) Reset() {
	if cap(r.found.spans) > maxKeptSpans || r.found.texts.Cap() > keptBytes {
		*r = Reader{}
		return
	}
	clear(r.found.calls)
	r.found.reset()
}

// collected is what was read of a request so far.
type collected struct {
	spans []node
	// calls are those of the spans, in their order.
	calls []Call
	texts strings.Builder // of the calls
}

// reset forgets all spans.
func (c *collected) reset() { c.spans, c.calls = c.spans[:0], c.calls[:0] }

// add notes a span.
func (c *collected) add(s *span) {
	n := node{spanID: s.spanID, parent: s.parent, call: none, genAI: s.genAI}
	if s.isCall() {
		n.call = len(c.calls)
		c.calls = slices.Grow(c.calls, 1)[:n.call+1]
		s.call(&c.calls[n.call], &c.texts)
	}
	c.spans = append(c.spans, n)
}

// nameAgents names the calls since the given one whose span names no agent: by
// what runs it.
func (c *collected) nameAgents(since int, service string) {
	for i := since; i < len(c.calls); i++ {
		if c.calls[i].Agent == "" {
			c.calls[i].Agent = service
		}
	}
}

// export sorts the spans into calls and others.
func (c *collected) export() Export {
	dropWrappers(c.spans, c.calls)
	var e Export
	kept := 0
	for _, s := range c.spans {
		switch {
		case s.call != none:
			if kept < s.call {
				c.calls[kept] = c.calls[s.call]
			}
			kept++
		case s.genAI:
			e.Wrappers++
		default:
			e.Others++
		}
	}
	e.Calls = c.calls[:kept]
	return e
}
