package otlp

import (
	"encoding/hex"
	"unicode/utf8"
)

// scanJSON reads a request of JSON in its usual spelling, in one pass and without
// building the messages, and reports whether it could. Anything out of the ordinary
// it leaves to the reader of messages, which is the one that judges: names that are
// unknown, repeated or written in snake_case, null, escapes in what a call is made of,
// values out of range. What it takes, that reader takes with the same result; a fuzz
// test holds that.
func scanJSON(body []byte, found *findings) bool {
	s := scanner{text: body, found: found}
	return utf8.Valid(body) && s.request() && s.at == len(body)
}

// scanner goes over JSON text. A method that returns false found something else than
// it is named after.
type scanner struct {
	text  []byte
	at    int
	found *findings
	guard guard
	span  span // the one being read
}

// maxScanDepth is how deep values of attributes may lie in each other.
const maxScanDepth = 8

// object passes over an object. member is called at the value of each name, and
// returns the number of the name, or false; no number may come twice.
func (s *scanner) object(member func(name []byte) (number int, ok bool)) bool {
	if !s.mark('{') {
		return false
	}
	if s.mark('}') {
		return true
	}
	var seen uint32
	for {
		name, plain, ok := s.string()
		if !ok || !plain || !s.mark(':') {
			return false
		}
		number, ok := member(name.of(s.text))
		if !ok || seen&(1<<number) != 0 {
			return false
		}
		seen |= 1 << number
		if s.mark('}') {
			return true
		}
		if !s.mark(',') {
			return false
		}
	}
}

// array passes over an array. element is called at each element.
func (s *scanner) array(element func() bool) bool {
	if !s.mark('[') {
		return false
	}
	if s.mark(']') {
		return true
	}
	for {
		if s.guard.count() != nil || !element() {
			return false
		}
		if s.mark(']') {
			return true
		}
		if !s.mark(',') {
			return false
		}
	}
}

func (s *scanner) request() bool {
	return s.object(func(name []byte) (int, bool) {
		return 0, string(name) == "resourceSpans" && s.array(s.resourceSpans)
	})
}

func (s *scanner) resourceSpans() bool {
	first := len(s.found.calls)
	var service serviceName
	ok := s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "resource":
			return 0, s.resource(&service)
		case "scopeSpans":
			return 1, s.array(s.scopeSpans)
		case "schemaUrl":
			return 2, s.anyText()
		}
		return 0, false
	})
	s.found.nameAgents(first, string(service.text.of(s.text)))
	return ok
}

func (s *scanner) scopeSpans() bool {
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "scope":
			return 0, s.scope()
		case "spans":
			return 1, s.array(s.readSpan)
		case "schemaUrl":
			return 2, s.anyText()
		}
		return 0, false
	})
}

// resource reads a resource, of which the name of the service counts.
func (s *scanner) resource(service *serviceName) bool {
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "attributes":
			return 0, s.attributes(service.attribute, 0)
		case "droppedAttributesCount":
			return 1, s.smallNumber()
		}
		return 0, false
	})
}

func (s *scanner) scope() bool {
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "attributes":
			return 0, s.attributes(passOver, 0)
		case "droppedAttributesCount":
			return 1, s.smallNumber()
		case "name":
			return 2, s.anyText()
		case "version":
			return 3, s.anyText()
		}
		return 0, false
	})
}

// passOver takes an attribute that no call is made of.
func passOver([]byte, value) {}

func (s *scanner) spanEvent() bool {
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "attributes":
			return 0, s.attributes(passOver, 0)
		case "droppedAttributesCount":
			return 1, s.smallNumber()
		case "name":
			return 2, s.anyText()
		case "timeUnixNano":
			_, ok := s.count()
			return 3, ok
		}
		return 0, false
	})
}

func (s *scanner) spanLink() bool {
	var id spanID
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "attributes":
			return 0, s.attributes(passOver, 0)
		case "droppedAttributesCount":
			return 1, s.smallNumber()
		case "traceId":
			return 2, s.id(id.trace[:])
		case "spanId":
			return 3, s.id(id.span[:])
		case "traceState":
			return 4, s.anyText()
		case "flags":
			return 5, s.smallNumber()
		}
		return 0, false
	})
}

func (s *scanner) readSpan() bool {
	if s.guard.countSpan() != nil {
		return false
	}
	s.span = span{texts: s.text}
	if !s.object(s.spanField) {
		return false
	}
	s.found.add(&s.span)
	return true
}

func (s *scanner) spanField(name []byte) (number int, ok bool) {
	switch string(name) {
	case "traceId":
		return 0, s.id(s.span.trace[:])
	case "spanId":
		return 1, s.id(s.span.spanID.span[:])
	case "parentSpanId":
		return 2, s.id(s.span.parent[:])
	case "name":
		return 3, s.anyText()
	case "kind":
		kind, ok := s.whole(1)
		s.span.kind = spanKind(kind)
		return 4, ok
	case "startTimeUnixNano":
		s.span.start, ok = s.count()
		return 5, ok
	case "endTimeUnixNano":
		s.span.end, ok = s.count()
		return 6, ok
	case "attributes":
		return 7, s.attributes(s.span.attribute, 0)
	case "status":
		return 8, s.status()
	case "events":
		return 9, s.array(s.spanEvent)
	case "links":
		return 10, s.array(s.spanLink)
	case "traceState":
		return 11, s.anyText()
	case "flags":
		return 12, s.smallNumber()
	case "droppedAttributesCount":
		return 13, s.smallNumber()
	case "droppedEventsCount":
		return 14, s.smallNumber()
	case "droppedLinksCount":
		return 15, s.smallNumber()
	}
	return 0, false
}

func (s *scanner) status() bool {
	return s.object(func(name []byte) (int, bool) {
		switch string(name) {
		case "code":
			code, ok := s.whole(1)
			s.span.failed = code == statusError
			return 0, ok
		case "message":
			return 1, s.anyText()
		}
		return 0, false
	})
}

// id reads an id in hex, which may be empty but not of another length.
func (s *scanner) id(dst []byte) bool {
	p, plain, ok := s.string()
	text := p.of(s.text)
	if !ok || !plain || len(text) != 0 && len(text) != 2*len(dst) {
		return false
	}
	_, err := hex.Decode(dst, text)
	return err == nil
}
