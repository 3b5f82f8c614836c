package ingest

import (
	"github.com/outlayhq/outlay/schema"
)

// scan reads an event in its usual spelling in one pass over its bytes, and returns what follows it. Anything out
// of the ordinary it leaves to the decoder, which is the one that judges and explains: escapes, control characters,
// exponents, unknown or repeated names, null, other types than documented. ok is false then, and r of no use.
// What scan takes, the decoder takes with the same result; a fuzz test holds that.
func scan(text []byte, r *request) (rest []byte, ok bool) {
	s := scanner{text}
	ok = s.event(r)
	return s.rest, ok
}

// scanner goes over JSON text. A method that returns false found something else than it is named after.
type scanner struct{ rest []byte }

func (s *scanner) event(r *request) bool {
	if !s.mark('{') {
		return false
	}
	var seen uint32
	for {
		name, ok := s.text()
		if !ok || !s.mark(':') {
			return false
		}
		to, ok := r.slot(name)
		if !ok || seen&(1<<to.number) != 0 || !s.value(to, r) {
			return false
		}
		seen |= 1 << to.number
		if !s.mark(',') {
			return s.mark('}')
		}
	}
}

// slot is where the value of a field goes: a text, a count, or as its name says.
type slot struct {
	number uint8
	name   string
	text   *optionalText
	count  *optionalCount
}

// slot returns the place of the fields that scan knows.
func (r *request) slot(name []byte) (slot, bool) {
	switch string(name) {
	case "agent":
		return slot{number: 0, text: &r.agent}, true
	case "model":
		return slot{number: 1, text: &r.model}, true
	case "provider":
		return slot{number: 2, text: &r.provider}, true
	case "session_id":
		return slot{number: 3, text: &r.sessionID}, true
	case "idempotency_key":
		return slot{number: 4, text: &r.idempotencyKey}, true
	case "status":
		return slot{number: 5, text: &r.status}, true
	case "error_type":
		return slot{number: 6, text: &r.errorType}, true
	case "step":
		return slot{number: 7, text: &r.step}, true
	case "parent_event_id":
		return slot{number: 8, text: &r.parent}, true
	case "user_id":
		return slot{number: 9, text: &r.userID}, true
	case "token_accounting":
		return slot{number: 10, text: &r.accounting}, true
	case "timestamp":
		return slot{number: 11, text: &r.timestamp}, true
	case "input_tokens":
		return slot{number: 12, name: "input_tokens", count: &r.input}, true
	case "output_tokens":
		return slot{number: 13, name: "output_tokens", count: &r.output}, true
	case "prompt_tokens":
		return slot{number: 14, name: "prompt_tokens", count: &r.prompt}, true
	case "completion_tokens":
		return slot{number: 15, name: "completion_tokens", count: &r.completion}, true
	case "cache_read_tokens":
		return slot{number: 16, name: "cache_read_tokens", count: &r.cacheRead}, true
	case "cache_write_tokens":
		return slot{number: 17, name: "cache_write_tokens", count: &r.cacheWrite}, true
	case "cache_write_1h_tokens":
		return slot{number: 18, name: "cache_write_1h_tokens", count: &r.cacheHour}, true
	case "reasoning_tokens":
		return slot{number: 19, name: "reasoning_tokens", count: &r.reasoning}, true
	case "latency_ms":
		return slot{number: 20, name: "latency_ms", count: &r.latency}, true
	case "cost_usd":
		return slot{number: 21, name: "cost_usd"}, true
	case "tags":
		return slot{number: 22, name: "tags"}, true
	case "metadata":
		return slot{number: 23, name: "metadata"}, true
	}
	return slot{}, false
}

func (s *scanner) value(to slot, r *request) bool {
	switch {
	case to.text != nil:
		return s.textInto(to.text, &r.memory)
	case to.count != nil:
		return s.countInto(to.count, to.name)
	case to.name == "cost_usd":
		return s.costInto(r)
	case to.name == "tags":
		return s.tagsInto(r)
	}
	return s.metadataInto(r)
}

func (s *scanner) textInto(t *optionalText, m *memory) bool {
	text, ok := s.text()
	t.value, t.given = m.text(text), true
	return ok
}

// maxScanDigits is how many digits of a count scan takes.
const maxScanDigits = 15

func (s *scanner) countInto(c *optionalCount, name string) bool {
	t := s.rest
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
	s.rest = t[length:]
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
		if !ok {
			return false
		}
		r.memory.tags = append(r.memory.tags, r.memory.text(tag))
		if s.mark(']') {
			r.tags = r.memory.tags[start:len(r.memory.tags):len(r.memory.tags)]
			return true
		}
		if !s.mark(',') {
			return false
		}
	}
	return false
}

// metadataInto keeps the object as it is written.
func (s *scanner) metadataInto(r *request) bool {
	start := s.rest
	nodes := 0
	if !s.object(1, &nodes) {
		return false
	}
	text := start[:len(start)-len(s.rest)]
	kept := len(r.memory.bytes)
	r.memory.bytes = append(r.memory.bytes, text...)
	r.metadata = r.memory.since(kept)
	return len(text) <= schema.MaxMetadataBytes && nodes <= schema.MaxMetadataNodes
}

// maxScanNames is how many names of one object are compared with each other.
const maxScanNames = 16

// object passes over an object of metadata and counts its names and values.
func (s *scanner) object(depth int, nodes *int) bool {
	if depth > schema.MaxMetadataDepth || !s.open('{', nodes) {
		return false
	}
	if s.close('}') {
		return true
	}
	var names [maxScanNames][]byte
	for n := range names {
		name, ok := s.text()
		if !ok || !s.mark(':') {
			return false
		}
		for _, other := range names[:n] {
			if string(other) == string(name) {
				return false
			}
		}
		names[n] = name
		*nodes++
		if !s.any(depth, nodes) {
			return false
		}
		s.space()
		if s.close('}') {
			return true
		}
		if !s.mark(',') {
			return false
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
		s.space()
		if s.close(']') {
			return true
		}
		if !s.mark(',') {
			return false
		}
	}
	return false
}

// any passes over a value of metadata that stands in something of the given depth.
func (s *scanner) any(depth int, nodes *int) bool {
	if len(s.rest) == 0 {
		return false
	}
	switch s.rest[0] {
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
