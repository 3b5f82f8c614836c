package otlp

import "strings"

// Read reads an ExportTraceServiceRequest. It returns ErrMalformed for a body
// that is none, ErrTooMany or ErrTooDeep for one that is beyond the limits.
// Nothing that it returns refers to body.
func Read(body []byte, e Encoding) (Export, error) {
	read := readProtobuf
	if e == JSON {
		read = readJSON
	}
	f := findings{calls: make([]Call, 0, len(body)/usualSpan+1), spans: make([]node, 0, len(body)/usualSpan+1)}
	if err := read(body, &f); err != nil {
		return Export{}, err
	}
	return f.export(), nil
}

// usualSpan is about how many bytes a span has. It only decides how much room is
// made at first.
const usualSpan = 512

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
		f.calls = append(f.calls, s.call(&f.texts))
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
