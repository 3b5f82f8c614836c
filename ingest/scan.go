package ingest

import (
	"bytes"

	"github.com/outlayhq/outlay/schema"
)

// scan reads an event in its usual spelling in one pass over its bytes, and returns what follows it. Anything out
// of the ordinary it leaves to the decoder, which is the one that judges and explains: escapes, control characters,
// exponents, unknown or repeated names, null, other types than documented. ok is false then, and r of no use.
// What scan takes, the decoder takes with the same result; a fuzz test holds that.
func scan(text []byte, r *request) (rest []byte, ok bool) {
	s := scanner{in: text}
	ok = s.event(r)
	return s.in[s.at:], ok
}

// scanner goes over JSON text. A method that returns false found something else than it is named after.
type scanner struct {
	in []byte
	at int // what is before was passed over
	// ascii says that the text that was read last has no other characters.
	ascii bool
}

func (s *scanner) event(r *request) bool {
	if !s.mark('{') {
		return false
	}
	var seen uint32
	for {
		name, ok := s.name()
		if !ok {
			return false
		}
		number, ok := s.field(name, r)
		if !ok || seen&(1<<number) != 0 {
			return false
		}
		seen |= 1 << number
		if more, ok := s.more('}'); !more {
			s.space()
			r.scanned = ok
			return ok
		}
	}
}

// field reads the value of a field that scan knows, and returns a number of its own for each.
func (s *scanner) field(name []byte, r *request) (number uint8, ok bool) {
	switch string(name) {
	case "agent":
		return 0, s.nameInto(&r.agent, &r.memory)
	case "model":
		return 1, s.nameInto(&r.model, &r.memory)
	case "provider":
		return 2, s.nameInto(&r.provider, &r.memory)
	case "session_id":
		return 3, s.sessionInto(r)
	case "idempotency_key":
		return 4, s.textInto(&r.idempotencyKey, &r.memory)
	case "status":
		return 5, s.textInto(&r.status, &r.memory)
	case "error_type":
		return 6, s.nameInto(&r.errorType, &r.memory)
	case "step":
		return 7, s.nameInto(&r.step, &r.memory)
	case "parent_event_id":
		return 8, s.textInto(&r.parent, &r.memory)
	case "user_id":
		return 9, s.nameInto(&r.userID, &r.memory)
	case "token_accounting":
		return 10, s.textInto(&r.accounting, &r.memory)
	case "timestamp":
		return 11, s.textInto(&r.timestamp, &r.memory)
	case "input_tokens":
		return 12, s.countInto(&r.input, "input_tokens")
	case "output_tokens":
		return 13, s.countInto(&r.output, "output_tokens")
	case "prompt_tokens":
		return 14, s.countInto(&r.prompt, "prompt_tokens")
	case "completion_tokens":
		return 15, s.countInto(&r.completion, "completion_tokens")
	case "cache_read_tokens":
		return 16, s.countInto(&r.cacheRead, "cache_read_tokens")
	case "cache_write_tokens":
		return 17, s.countInto(&r.cacheWrite, "cache_write_tokens")
	case "cache_write_1h_tokens":
		return 18, s.countInto(&r.cacheHour, "cache_write_1h_tokens")
	case "reasoning_tokens":
		return 19, s.countInto(&r.reasoning, "reasoning_tokens")
	case "latency_ms":
		return 20, s.countInto(&r.latency, "latency_ms")
	case "cost_usd":
		return 21, s.costInto(r)
	case "tags":
		return 22, s.tagsInto(r)
	case "metadata":
		return 23, s.metadataInto(r)
	}
	return 0, false
}

func (s *scanner) textInto(t *optionalText, m *memory) bool {
	text, ok := s.text()
	if !ok {
		return false
	}
	t.value, t.given = m.text(text), true
	return true
}

// nameInto is textInto for a name in normal form of at most schema.MaxNameLength characters.
func (s *scanner) nameInto(t *optionalText, m *memory) bool {
	text, ok := s.short()
	if !ok {
		return false
	}
	t.value, t.given = m.text(text), true
	return true
}

// sessionInto keeps what the client calls the session as a part of what it is called in
// an event.
func (s *scanner) sessionInto(r *request) bool {
	text, ok := s.short()
	if !ok {
		return false
	}
	r.sessionID.given = true
	switch {
	case len(text) == 0:
		return true
	case bytes.HasPrefix(text, []byte(sessionMark)):
		r.session = r.memory.text(text)
	default:
		r.session = r.memory.after(sessionMark, text)
	}
	r.sessionID.value = r.session[len(r.session)-len(text):]
	return true
}

// maxScanDigits is how many digits of a count scan takes.
const maxScanDigits = 15

func (s *scanner) countInto(c *optionalCount, name string) bool {
	t := s.in[s.at:]
	var n int64
	length := 0
	for length < len(t) && length <= maxScanDigits {
		digit := t[length] - '0'
		if digit > 9 {
			break
		}
		n = n*10 + int64(digit)
		length++
	}
	switch {
	case length == 0 || length > maxScanDigits || length > 1 && t[0] == '0':
		return false
	case length < len(t) && (t[length] == '.' || t[length] == 'e' || t[length] == 'E'):
		return false
	}
	s.at += length
	*c = optionalCount{value: n, name: name}
	return true
}

func (s *scanner) costInto(r *request) bool {
	literal, ok := s.number()
	if !ok {
		return false
	}
	cost, err := schema.ParseUSD(string(literal))
	r.cost, r.costGiven = cost, true
	return err == nil
}

func (s *scanner) tagsInto(r *request) bool {
	if !s.mark('[') {
		return false
	}
	start := len(r.memory.tags)
	for len(r.memory.tags)-start < schema.MaxTags {
		tag, ok := s.text()
		if !ok || !s.ascii && !schema.IsName(tag, schema.MaxTagLength) {
			return false
		}
		r.memory.tags = append(r.memory.tags, r.memory.text(tag))
		if more, ok := s.more(']'); !more {
			r.tags = r.memory.tags[start:len(r.memory.tags):len(r.memory.tags)]
			return ok
		}
	}
	return false
}

// metadataInto keeps the object as it is written.
func (s *scanner) metadataInto(r *request) bool {
	start := s.at
	nodes := -1 // The metadata itself is none.
	if !s.object(1, &nodes) {
		return false
	}
	text := s.in[start:s.at]
	kept := len(r.memory.bytes)
	r.memory.bytes = append(r.memory.bytes, text...)
	r.metadata = r.memory.since(kept)
	return len(text) <= schema.MaxMetadataBytes && nodes <= schema.MaxMetadataNodes
}

// maxScanNames is how many names of one object are compared with each other.
const maxScanNames = 16

// object passes over an object of metadata and counts it and its values.
func (s *scanner) object(depth int, nodes *int) bool {
	if depth > schema.MaxMetadataDepth || !s.open('{', nodes) {
		return false
	}
	if s.close('}') {
		return true
	}
	var names [maxScanNames][]byte
	for n := range names {
		name, ok := s.name()
		if !ok {
			return false
		}
		for _, other := range names[:n] {
			if string(other) == string(name) {
				return false
			}
		}
		names[n] = name
		if !s.any(depth, nodes) {
			return false
		}
		if more, ok := s.more('}'); !more {
			return ok
		}
	}
	return false
}

// array passes over an array of metadata.
func (s *scanner) array(depth int, nodes *int) bool {
	if depth > schema.MaxMetadataDepth || !s.open('[', nodes) {
		return false
	}
	if s.close(']') {
		return true
	}
	for *nodes <= schema.MaxMetadataNodes {
		if !s.any(depth, nodes) {
			return false
		}
		if more, ok := s.more(']'); !more {
			return ok
		}
	}
	return false
}

// any passes over a value of metadata that stands in something of the given depth.
func (s *scanner) any(depth int, nodes *int) bool {
	if s.at >= len(s.in) {
		return false
	}
	switch s.in[s.at] {
	case '{':
		return s.object(depth+1, nodes)
	case '[':
		return s.array(depth+1, nodes)
	case '"':
		*nodes++
		_, ok := s.text()
		return ok
	case 't':
		*nodes++
		return s.word("true")
	case 'f':
		*nodes++
		return s.word("false")
	case 'n':
		*nodes++
		return s.word("null")
	}
	*nodes++
	literal, ok := s.number()
	return ok && len(literal) <= schema.MaxNumberLength
}
