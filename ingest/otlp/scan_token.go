package otlp

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// attributes reads a list of names with values and passes them to note.
func (s *scanner) attributes(note func(name []byte, v value), depth int) bool {
	return depth <= maxScanDepth && s.array(func() bool {
		var name []byte
		var v value
		members, plain := 0, false
		ok := s.object(func(field []byte) (int, bool) {
			members++
			switch string(field) {
			case "key":
				p, isPlain, ok := s.string()
				name = p.of(s.text)
				return 0, ok && isPlain
			case "value":
				var ok bool
				v, plain, ok = s.value(depth)
				return 1, ok
			}
			return 0, false
		})
		if !ok || members != 2 || !plain && (attributeOf(name) < attributeCount || string(name) == "service.name") {
			return false
		}
		note(name, v)
		return true
	})
}

// value reads the value of an attribute, which has one form or none. It is not plain
// when it is a text with escapes, which v holds as they are written.
func (s *scanner) value(depth int) (v value, plain, ok bool) {
	plain = true
	members := 0
	ok = s.object(func(field []byte) (int, bool) {
		if members++; members > 1 {
			return 0, false
		}
		v = value{kind: kindOther}
		switch string(field) {
		case "stringValue":
			v.kind = kindText
			v.text, plain, ok = s.string()
			return 0, ok
		case "intValue":
			v.kind = kindInt
			v.number, ok = s.integer()
			return 0, ok
		case "doubleValue":
			v.kind = kindDouble
			v.number, ok = s.double()
			return 0, ok
		case "boolValue":
			return 0, s.word("true") || s.word("false")
		case "arrayValue":
			return 0, s.values(func() bool { return s.array(func() bool { _, _, ok := s.value(depth + 1); return ok }) }, depth)
		case "kvlistValue":
			return 0, s.values(func() bool { return s.attributes(passOver, depth+1) }, depth)
		}
		return 0, false
	})
	return v, plain, ok
}

// values passes over what a list of values is wrapped in.
func (s *scanner) values(list func() bool, depth int) bool {
	return depth < maxScanDepth && s.object(func(name []byte) (int, bool) {
		return 0, string(name) == "values" && list()
	})
}

// space passes over what may stand around values.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return
		}
	}
}

// mark passes over c and the space around it.
func (s *scanner) mark(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] != c {
		s.space()
	}
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.space()
	return true
}

func (s *scanner) word(w string) bool {
	rest := s.text[s.at:]
	if len(rest) < len(w) || string(rest[:len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// string returns what stands between quotes. It is plain without escapes; those of
// code points are left to the other reader.
func (s *scanner) string() (p part, plain, ok bool) {
	if s.at == len(s.text) || s.text[s.at] != '"' {
		return p, false, false
	}
	start := s.at + 1
	plain = true
	for i := start; i < len(s.text); i++ {
		if i+8 <= len(s.text) {
			n := plainBytes(binary.LittleEndian.Uint64(s.text[i:]))
			if i += n; n == 8 {
				i--
				continue
			}
		}
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			return part{start, i}, plain, true
		case c < 0x20:
			return p, false, false
		case c == '\\':
			plain = false
			if i++; i == len(s.text) || !simpleEscape(s.text[i]) {
				return p, false, false
			}
		}
	}
	return p, false, false
}

// plainBytes returns how many of eight bytes, the first of which is the lowest, come
// before one that ends a string or is out of the ordinary in one.
func plainBytes(w uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^'"'*ones, w^'\\'*ones
	// A subtraction borrows from the next byte only where it finds one: the lowest is
	// always right.
	found := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
	return bits.TrailingZeros64(found) / 8
}

// simpleEscape reports whether a backslash and c make one character.
func simpleEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// anyText passes over a text.
func (s *scanner) anyText() bool {
	_, _, ok := s.string()
	return ok
}

// whole reads a number of so many digits at most.
func (s *scanner) whole(most int) (n uint64, ok bool) {
	start := s.at
	for ; s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'; s.at++ {
		n = n*10 + uint64(s.text[s.at]-'0')
	}
	digits := s.at - start
	if digits == 0 || digits > most || digits > 1 && s.text[start] == '0' {
		return 0, false
	}
	return n, true
}

// smallNumber passes over a number that has room in 32 bits.
func (s *scanner) smallNumber() bool {
	_, ok := s.whole(9)
	return ok
}

// So many digits always have room in 64 bits, without and with a sign.
const (
	countDigits   = 19
	integerDigits = 18
)

// count reads a number, in quotes or not.
func (s *scanner) count() (n uint64, ok bool) {
	quoted := s.word(`"`)
	n, ok = s.whole(countDigits)
	return n, ok && (!quoted || s.word(`"`))
}

// integer is count with a sign; n is in two's complement.
func (s *scanner) integer() (n uint64, ok bool) {
	quoted := s.word(`"`)
	negative := s.word("-")
	n, ok = s.whole(integerDigits)
	if negative {
		ok = ok && n > 0
		n = -n
	}
	return n, ok && (!quoted || s.word(`"`))
}

// double reads a number without an exponent and returns its bits.
func (s *scanner) double() (bits uint64, ok bool) {
	start := s.at
	_ = s.word("-")
	if _, ok := s.whole(integerDigits); !ok {
		return 0, false
	}
	if s.word(".") {
		fraction := s.at
		for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
			s.at++
		}
		if s.at == fraction {
			return 0, false
		}
	}
	literal := s.text[start:s.at]
	f, err := strconv.ParseFloat(string(literal), 64)
	return math.Float64bits(f), err == nil && len(literal) <= integerDigits
}
