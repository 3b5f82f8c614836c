package ingest

import (
	"encoding/binary"
	"math/bits"

	"github.com/outlayhq/outlay/schema"
)

// space passes over what may stand around values.
func (s *scanner) space() {
	for len(s.rest) > 0 {
		switch s.rest[0] {
		case ' ', '\n', '\r', '\t':
			s.rest = s.rest[1:]
		default:
			return
		}
	}
}

// mark passes over c and the space around it, of which there is none as a rule.
func (s *scanner) mark(c byte) bool {
	if t := s.rest; len(t) > 1 && t[0] == c && t[1] > ' ' {
		s.rest = t[1:]
		return true
	}
	return s.spacedMark(c)
}

func (s *scanner) spacedMark(c byte) bool {
	if len(s.rest) > 0 && s.rest[0] != c {
		s.space()
	}
	if !s.close(c) {
		return false
	}
	s.space()
	return true
}

// open passes over the c that starts an object or array of metadata and the space after it.
func (s *scanner) open(c byte, nodes *int) bool {
	if !s.close(c) {
		return false
	}
	*nodes++
	s.space()
	return true
}

// close passes over c alone, so that what ends with it has no space in its tail.
func (s *scanner) close(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) word(w string) bool {
	if len(s.rest) < len(w) || string(s.rest[:len(w)]) != w {
		return false
	}
	s.rest = s.rest[len(w):]
	return true
}

// text returns what a string without escapes and control characters holds.
func (s *scanner) text() ([]byte, bool) {
	t := s.rest
	if len(t) == 0 || t[0] != '"' {
		return nil, false
	}
	i := 1
	for i+8 <= len(t) {
		plain := plainBytes(binary.LittleEndian.Uint64(t[i:]))
		i += plain
		if plain == 8 {
			continue
		}
		if t[i] == '"' {
			s.rest = t[i+1:]
			return t[1:i], true
		}
		break
	}
	return s.textFrom(i)
}

// textFrom is text whose first bytes, up to i, are plain.
func (s *scanner) textFrom(i int) ([]byte, bool) {
	ascii := true
	for ; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			return text, ascii || schema.TextFault(string(text), len(text)) == ""
		case c < 0x20 || c == 0x7f || c == '\\':
			return nil, false
		case c > 0x7f:
			ascii = false
		}
	}
	return nil, false
}

// word returns the first eight bytes of text, the first of them lowest.
func word(text string) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// plainBytes returns how many of eight bytes, the first of which is the lowest, come
// before one that ends a string or is out of the ordinary in one.
func plainBytes(w uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash, del := w^'"'*ones, w^'\\'*ones, w^0x7f*ones
	// A subtraction borrows from the next byte only where it finds one: the lowest is
	// always right.
	found := (w | (w - ' '*ones) | (quote - ones) | (slash - ones) | (del - ones)) & highs
	return bits.TrailingZeros64(found) / 8
}

// number returns the text of a number that has no exponent.
func (s *scanner) number() ([]byte, bool) {
	i := 0
	if len(s.rest) > 0 && s.rest[0] == '-' {
		i++
	}
	whole := s.digits(i)
	if whole == 0 || whole > 1 && s.rest[i] == '0' {
		return nil, false
	}
	i += whole
	if i < len(s.rest) && s.rest[i] == '.' {
		fraction := s.digits(i + 1)
		if fraction == 0 {
			return nil, false
		}
		i += 1 + fraction
	}
	if i < len(s.rest) && (s.rest[i] == 'e' || s.rest[i] == 'E') {
		return nil, false
	}
	literal := s.rest[:i]
	s.rest = s.rest[i:]
	return literal, true
}

// digits returns how many digits there are from i on.
func (s *scanner) digits(i int) int {
	n := 0
	for i+n < len(s.rest) && s.rest[i+n] >= '0' && s.rest[i+n] <= '9' {
		n++
	}
	return n
}
