package ingest

import (
	"encoding/binary"
	"math/bits"

	"github.com/outlayhq/outlay/schema"
)

// space passes over what may stand around values.
func (s *scanner) space() {
	for s.at < len(s.in) && s.in[s.at] <= ' ' && uint64(1)<<s.in[s.at]&(1<<' '|1<<'\n'|1<<'\r'|1<<'\t') != 0 {
		s.at++
	}
}

// mark passes over c and the space around it.
func (s *scanner) mark(c byte) bool {
	s.space()
	if !s.close(c) {
		return false
	}
	s.space()
	return true
}

// bare passes over c if it is next, and neither space nor the end of the text follows: the
// usual case. mark does for all.
func (s *scanner) bare(c byte) bool {
	if at := s.at + 1; at < len(s.in) && s.in[at-1] == c && s.in[at] > ' ' {
		s.at = at
		return true
	}
	return false
}

// name returns the name of a member, and passes over the colon after it and the space
// around that.
func (s *scanner) name() ([]byte, bool) {
	name, ok := s.text()
	return name, ok && (s.bare(':') || s.mark(':'))
}

// more passes over what follows a value: a comma and the space around it, or end and the
// space before it, after which there is no more.
func (s *scanner) more(end byte) (more, ok bool) {
	if s.bare(',') || s.mark(',') {
		return true, true
	}
	return false, s.close(end)
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
	t = t[1:]
	rest := t
	for len(rest) > 8 {
		found := notPlain(binary.LittleEndian.Uint64(rest))
		if found == 0 {
			rest = rest[8:]
			continue
		}
		n := len(t) - len(rest) + bits.TrailingZeros64(found)/8
		if t[n] == '"' {
			s.at += n + 2
			s.ascii = true
			return t[:n], true
		}
		break
	}
	return s.textFrom(1 + len(t) - len(rest))
}

// short is text for a name in normal form of at most schema.MaxNameLength characters.
func (s *scanner) short() ([]byte, bool) {
	text, ok := s.text()
	return text, ok && (s.ascii && len(text) <= schema.MaxNameLength || !s.ascii && schema.IsName(text, schema.MaxNameLength))
}

// textFrom is text whose first bytes, up to i, are plain.
func (s *scanner) textFrom(i int) ([]byte, bool) {
	t := s.in[s.at:]
	ascii := true
	for ; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"':
			s.at += i + 1
			s.ascii = ascii
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

// notPlain returns, of eight bytes, the first of which is the lowest, the high bit of the
// first one that ends a string or is out of the ordinary in one, and any bits above it. It
// returns 0 when there is none.
func notPlain(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// With its second bit turned, a quote is 0x20 and what is below a space stays so.
	lowOrQuote := (w ^ 2*ones) - 0x21*ones
	slash := (w ^ '\\'*ones) - ones
	// A sum or difference reaches into the next byte only where it finds one: the
	// lowest is always right.
	return (w | lowOrQuote | slash | (w + ones)) & highs
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
