package otlp

import (
	"slices"
	"strings"
)

// Reader reads requests into the same memory, one after the other. The zero value is
// ready.
type Reader struct{ found findings }

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

// findings are what was read of a request so far.
type findings struct {
	spans []node
	// calls are those of the spans, in their order.
	calls []Call
	texts strings.Builder // of the calls
}

// reset forgets all spans.
func (f *findings) reset() { f.spans, f.calls = f.spans[:0], f.calls[:0] }

// add notes a span.
func (f *findings) add(s *span) {
	n := node{spanID: s.spanID, parent: s.parent, call: none, genAI: s.genAI}
	if s.isCall() {
		n.call = len(f.calls)
		f.calls = slices.Grow(f.calls, 1)[:n.call+1]
		s.call(&f.calls[n.call], &f.texts)
	}
	f.spans = append(f.spans, n)
}

// nameAgents names the calls since the given one whose span names no agent: by
// what runs it.
func (f *findings) nameAgents(since int, service string) {
	for i := since; i < len(f.calls); i++ {
		if f.calls[i].Agent == "" {
			f.calls[i].Agent = service
		}
	}
}

// export sorts the spans into calls and others.
func (f *findings) export() Export {
	settle(f.spans, f.calls)
	var e Export
	kept := 0
	for _, s := range f.spans {
		switch {
		case s.call != none:
			if kept < s.call {
				f.calls[kept] = f.calls[s.call]
			}
			kept++
		case s.genAI:
			e.Wrappers++
		default:
			e.Others++
		}
	}
	e.Calls = f.calls[:kept]
	return e
}
