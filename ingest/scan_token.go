package ingest

import (
	"encoding/binary"
	"math/bits"

	"github.com/outlayhq/outlay/schema"
)

// space passes over what may stand around values.
func (s *scanner) space() {
	for s.at < len(s.in) {
		switch s.in[s.at] {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return
		}
	}
}

// mark passes over c and the space around it, of which there is none as a rule.
func (s *scanner) mark(c byte) bool {
	if t := s.in[s.at:]; len(t) > 1 && t[0] == c && t[1] > ' ' {
		s.at++
		return true
	}
	return s.spacedMark(c)
}

func (s *scanner) spacedMark(c byte) bool {
	if s.at < len(s.in) && s.in[s.at] != c {
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
	if s.at >= len(s.in) || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) word(w string) bool {
	if t := s.in[s.at:]; len(t) < len(w) || string(t[:len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// text returns what a string without escapes and control characters holds.
func (s *scanner) text() ([]byte, bool) {
	t := s.in[s.at:]
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
			s.at += i + 1
			return t[1:i], true
		}
		break
	}
	return s.textFrom(i)
}

// textFrom is text whose first bytes, up to i, are plain.
func (s *scanner) textFrom(i int) ([]byte, bool) {
	t := s.in[s.at:]
	ascii := true
	for ; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"':
			s.at += i + 1
			return t[1:i], ascii || schema.TextFault(string(t[1:i]), i-1) == ""
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
	// With its second bit turned, a quote is 0x20 and what is below a space stays so.
	lowOrQuote := (w ^ 2*ones) - 0x21*ones
	slash := (w ^ '\\'*ones) - ones
	// A sum or difference reaches into the next byte only where it finds one: the
	// lowest is always right.
	found := (w | lowOrQuote | slash | (w + ones)) & highs
	return bits.TrailingZeros64(found) / 8
}

// number returns the text of a number that has no exponent.
func (s *scanner) number() ([]byte, bool) {
	t := s.in[s.at:]
	i := 0
	if len(t) > 0 && t[0] == '-' {
		i++
	}
	whole := digits(t[i:])
	if whole == 0 || whole > 1 && t[i] == '0' {
		return nil, false
	}
	i += whole
	if i < len(t) && t[i] == '.' {
		fraction := digits(t[i+1:])
		if fraction == 0 {
			return nil, false
		}
		i += 1 + fraction
	}
	if i < len(t) && (t[i] == 'e' || t[i] == 'E') {
		return nil, false
	}
	s.at += i
	return t[:i], true
}

// digits returns with how many digits t starts.
func digits(t []byte) int {
	n := 0
	for n < len(t) && t[n] >= '0' && t[n] <= '9' {
		n++
	}
	return n
}
