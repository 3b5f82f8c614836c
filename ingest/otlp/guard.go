package otlp

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of a request. The bytes of the body are bounded by the caller; these
// bound what its bytes may grow to in memory: an empty span has two bytes on the
// wire and three hundred once it was read.
const (
	// MaxSpans is the most spans of a request, of any kind. The batches of the
	// SDKs have 512, those of the Collector 8192.
	MaxSpans = 10_000
	// MaxNodes bounds spans, attributes, events, links and elements of arrays
	// together.
	MaxNodes = 200_000
	// MaxDepth bounds how deep messages and JSON values may be nested.
	MaxDepth = 100
)

// What Read refuses a request for.
var (
	ErrMalformed = errors.New("not an OTLP trace export")
	ErrTooMany   = errors.New("too many spans or attributes")
	ErrTooDeep   = errors.New("nested too deep")
)

// message is a kind of OTLP's protobuf messages that others are nested in and that
// is passed over.
type message int

const (
	leaf message = iota
	scope
	spanEvent
	spanLink
	keyValue
	anyValue
	arrayValue
	keyValueList
)

// nested returns the kind of message that the field holds, or leaf.
func (m message) nested(field protowire.Number) message {
	switch m {
	case scope:
		return pick(field, 3, keyValue)
	case spanEvent:
		return pick(field, 3, keyValue)
	case spanLink:
		return pick(field, 4, keyValue)
	case keyValue:
		return pick(field, 2, anyValue)
	case anyValue:
		return pick(field, 5, arrayValue) + pick(field, 6, keyValueList)
	case arrayValue:
		return pick(field, 1, anyValue)
	case keyValueList:
		return pick(field, 1, keyValue)
	case leaf:
	}
	return leaf
}

func pick(field, wanted protowire.Number, m message) message {
	if field == wanted {
		return m
	}
	return leaf
}

// guard counts what a body would become, before it does.
type guard struct{ nodes, spans int }

// protobuf passes over a message of the given kind.
func (g *guard) protobuf(body []byte, m message, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return ErrMalformed
		}
		body = body[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, body); n < 0 {
				return ErrMalformed
			}
			body = body[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return ErrMalformed
		}
		body = body[n:]
		if err := g.message(value, m.nested(field), depth); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) message(value []byte, m message, depth int) error {
	if m == leaf {
		return nil
	}
	if err := g.count(); err != nil {
		return err
	}
	return g.protobuf(value, m, depth+1)
}

// count counts a message.
func (g *guard) count() error {
	if g.nodes++; g.nodes > MaxNodes {
		return ErrTooMany
	}
	return nil
}

// countSpan counts a message that is a span.
func (g *guard) countSpan() error {
	if g.spans++; g.spans > MaxSpans {
		return ErrTooMany
	}
	return g.count()
}

// json walks a body of JSON. Its strictness is that of the other endpoints:
// invalid UTF-8, duplicate names and trailing data are errors. So is an object that
// has fields but none of a request: its sender means something else.
func (g *guard) json(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if d.PeekKind() != '{' {
		return ErrMalformed
	}
	known, empty := false, true
	for {
		around, _ := d.StackIndex(d.StackDepth())
		token, err := d.ReadToken()
		if err != nil {
			return ErrMalformed
		}
		if around == '[' && token.Kind() != ']' {
			g.nodes++
		}
		depth := d.StackDepth()
		if depth == 1 && isName(d) {
			name := token.String()
			known, empty = known || name == "resourceSpans" || name == "resource_spans", false
		}
		switch {
		case g.nodes > MaxNodes:
			return ErrTooMany
		case depth > MaxDepth:
			return ErrTooDeep
		case depth == 0:
			_, err = d.ReadToken()
			if errors.Is(err, io.EOF) && (known || empty) {
				return nil
			}
			return ErrMalformed
		}
	}
}

// isName reports whether the token that was read last is the name of a member.
func isName(d *jsontext.Decoder) bool {
	around, index := d.StackIndex(d.StackDepth())
	return around == '{' && index%2 == 1
}
