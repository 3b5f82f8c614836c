package otlp

import "google.golang.org/protobuf/encoding/protowire"

// readProtobuf reads a request of protobuf. It takes from the bytes just what a
// call is made of and counts the rest, in one pass and without building the
// messages.
func readProtobuf(body []byte, found *collected) error {
	r := protobufReader{body: body, found: found}
	return r.request()
}

type protobufReader struct {
	body  []byte
	found *collected
	guard guard
	span  span // the one being read
}

// How deep the messages lie in the request that others are passed over in.
const (
	depthScopeSpans = 2
	depthSpan       = 3
	depthValue      = 5
)

func (r *protobufReader) request() error {
	fields := fieldsOf(r.body, part{0, len(r.body)})
	known := len(r.body) == 0
	for fields.next() {
		if fields.number == 1 {
			known = true
			fields.check(r.resourceSpans(fields.message()))
		}
	}
	if !known {
		fields.check(ErrMalformed)
	}
	return fields.err
}

func (r *protobufReader) resourceSpans(message part) error {
	if err := r.guard.count(); err != nil {
		return err
	}
	first := len(r.found.calls)
	var service serviceName
	fields := fieldsOf(r.body, message)
	for fields.next() {
		switch fields.number {
		case 1:
			fields.check(r.resource(fields.message(), &service))
		case 2:
			fields.check(r.scopeSpans(fields.message()))
		}
	}
	r.found.nameAgents(first, string(service.text.of(r.body)))
	return fields.err
}

// serviceName is the value of the attribute service.name. Of several, the first
// counts.
type serviceName struct {
	value
	known bool
}

func (s *serviceName) attribute(name []byte, v value) {
	if !s.known && string(name) == "service.name" {
		s.value, s.known = v, true
	}
}

func (r *protobufReader) resource(message part, service *serviceName) error {
	if err := r.guard.count(); err != nil {
		return err
	}
	fields := fieldsOf(r.body, message)
	for fields.next() {
		if fields.number == 1 {
			name, v, err := r.attribute(fields.message())
			service.attribute(name.of(r.body), v)
			fields.check(err)
		}
	}
	return fields.err
}

func (r *protobufReader) scopeSpans(message part) error {
	if err := r.guard.count(); err != nil {
		return err
	}
	fields := fieldsOf(r.body, message)
	for fields.next() {
		switch fields.number {
		case 1:
			fields.check(r.passOver(fields.message(), scope, depthScopeSpans))
		case 2:
			fields.check(r.readSpan(fields.message()))
		}
	}
	return fields.err
}

func (r *protobufReader) readSpan(message part) error {
	if err := r.guard.countSpan(); err != nil {
		return err
	}
	s := &r.span
	*s = span{texts: r.body}
	fields := fieldsOf(r.body, message)
	for fields.next() {
		switch fields.number {
		case 1:
			fields.id(s.trace[:])
		case 2:
			fields.id(s.spanID.span[:])
		case 4:
			fields.id(s.parent[:])
		case 6:
			s.kind = spanKind(fields.varint())
		case 7:
			s.start = fields.fixed64()
		case 8:
			s.end = fields.fixed64()
		case 9:
			name, v, err := r.attribute(fields.message())
			s.attribute(name.of(r.body), v)
			fields.check(err)
		case 11:
			fields.check(r.passOver(fields.message(), spanEvent, depthSpan))
		case 13:
			fields.check(r.passOver(fields.message(), spanLink, depthSpan))
		case 15:
			fields.check(r.status(fields.message()))
		}
	}
	if fields.err == nil {
		r.found.add(s)
	}
	return fields.err
}

func (r *protobufReader) status(message part) error {
	fields := fieldsOf(r.body, message)
	for fields.next() {
		if fields.number == 3 {
			r.span.failed = int32(fields.varint()) == statusError
		}
	}
	return fields.err
}

// attribute reads a name and its value, whichever comes first.
func (r *protobufReader) attribute(message part) (name part, v value, err error) {
	if err := r.guard.count(); err != nil {
		return name, v, err
	}
	if name, v, ok := r.shortAttribute(message); ok {
		return name, v, r.guard.count()
	}
	fields := fieldsOf(r.body, message)
	for fields.next() {
		switch fields.number {
		case 1:
			name = fields.message()
		case 2:
			fields.check(r.value(fields.message(), &v))
		}
	}
	return name, v, fields.err
}

// What the first byte of a field says: its number and type, and that its length has
// no second byte.
const (
	firstBytes   = 1<<3 | byte(protowire.BytesType)
	secondBytes  = 2<<3 | byte(protowire.BytesType)
	thirdVarint  = 3<<3 | byte(protowire.VarintType)
	shortLengths = 0x80
)

// shortAttribute reads an attribute as nearly all are written: a short name, and then a
// short text or an integer as its value. Any other it leaves alone.
func (r *protobufReader) shortAttribute(message part) (name part, v value, ok bool) {
	text := message.of(r.body)
	if len(text) < 6 || text[0] != firstBytes || text[1] >= shortLengths {
		return name, v, false
	}
	at := 2 + int(text[1]) // where the value's field starts
	if at+4 > len(text) || text[at] != secondBytes || text[at+1] >= shortLengths || at+2+int(text[at+1]) != len(text) {
		return name, v, false
	}
	name = part{message.from + 2, message.from + at}
	content := text[at+3:] // after the first byte of the value's own field
	switch text[at+2] {
	case firstBytes:
		if int(content[0]) == len(content)-1 {
			return name, value{kind: kindText, text: part{message.to - len(content) + 1, message.to}}, true
		}
	case thirdVarint:
		if number, n := protowire.ConsumeVarint(content); n == len(content) {
			return name, value{kind: kindInt, number: number}, true
		}
	}
	return name, v, false
}

// value reads a value over the one that was read before, if any.
func (r *protobufReader) value(message part, v *value) error {
	if err := r.guard.count(); err != nil {
		return err
	}
	fields := fieldsOf(r.body, message)
	for fields.next() {
		switch fields.number {
		case 1:
			*v = value{kind: kindText, text: fields.message()}
		case 2:
			_ = fields.varint()
			*v = value{kind: kindOther}
		case 3:
			*v = value{kind: kindInt, number: fields.varint()}
		case 4:
			*v = value{kind: kindDouble, number: fields.fixed64()}
		case 5:
			fields.check(r.passOver(fields.message(), arrayValue, depthValue))
			*v = value{kind: kindOther}
		case 6:
			fields.check(r.passOver(fields.message(), keyValueList, depthValue))
			*v = value{kind: kindOther}
		case 7:
			_ = fields.message()
			*v = value{kind: kindOther}
		}
	}
	return fields.err
}

// passOver counts what is in a message that no call is made of.
func (r *protobufReader) passOver(p part, m message, depth int) error {
	return r.guard.message(p.of(r.body), m, depth)
}
