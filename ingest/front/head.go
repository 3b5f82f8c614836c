package front

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// maxLines is the most headers of a plain request.
const maxLines = 32

// head is a request up to its body, as the last one on a connection had it. A
// client says mostly the same each time, and what it has said before is neither
// checked nor copied again.
type head struct {
	requestLine string
	path        string
	host        string
	header      http.Header
	lines       []line
}

// line is one header.
type line struct {
	text   string // with its end
	prefix int    // of text up to the colon, and it
	kind   kind
	// value is one that the header of the request refers to.
	value [1]string
}

// kind is what a header is to the parser.
type kind int

const (
	ordinary  kind = iota
	length         // Content-Length
	host           // Host, which net/http keeps out of the header
	keepalive      // Connection, which may only say that
)

// parse reads the head at the beginning of in, and returns where the body begins
// and how long it is. It returns false for anything that is not plain, or not all
// there.
func (h *head) parse(in []byte, paths map[string]string) (begin, size int, ok bool) {
	end := bytes.Index(in, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, 0, false
	}
	begin = end + len("\r\n\r\n")
	first, rest := cut(in[:end+len("\r\n")])
	if string(first) != h.requestLine {
		path, known := paths[string(first)]
		if !known {
			return 0, 0, false
		}
		h.requestLine, h.path = string(first), path
	}
	size = h.follow(rest)
	if size == differs {
		size = h.learn(rest)
	}
	return begin, size, size >= 0
}

// cut splits off a line with its end. There is a line.
func cut(text []byte) (line, rest []byte) {
	i := bytes.IndexByte(text, '\n') + 1
	return text[:i], text[i:]
}

// What follow and learn return instead of a Content-Length.
const (
	differs  = -1
	notPlain = -2
)

// follow takes lines that are those of the last request but for some values, and
// returns the Content-Length.
func (h *head) follow(text []byte) int {
	size := notPlain
	for i := range h.lines {
		if len(text) == 0 {
			return differs
		}
		l := &h.lines[i]
		var now []byte
		now, text = cut(text)
		if string(now) != l.text {
			if len(now) < l.prefix || string(now[:l.prefix]) != l.text[:l.prefix] {
				return differs
			}
			if l.kind != length && !h.take(l, now) {
				return notPlain
			}
		}
		if l.kind == length {
			if size = parseLength(value(now[l.prefix:])); size < 0 {
				return notPlain
			}
		}
	}
	if len(text) > 0 || len(h.lines) == 0 {
		return differs
	}
	return size
}

// learn takes lines that are others than those of the last request, and returns the
// Content-Length.
func (h *head) learn(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	h.header, h.lines, h.host = make(http.Header, n), nil, ""
	if n > maxLines {
		return notPlain
	}
	lines, size, hosts := make([]line, n), notPlain, 0
	for i := range lines {
		var now []byte
		now, text = cut(text)
		l := &lines[i]
		name, isPlain := l.name(now)
		if !isPlain || h.header[name] != nil {
			return notPlain
		}
		if l.kind == length {
			size = parseLength(value(now[l.prefix:]))
			l.text = string(now)
		} else if !h.take(l, now) {
			return notPlain
		}
		h.header[name] = l.value[:]
		hosts += b2i(l.kind == host)
	}
	if hosts != 1 {
		return notPlain
	}
	delete(h.header, "Host")
	delete(h.header, "Content-Length")
	h.lines = lines
	return size
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// name sets prefix and kind by the name of the header, which it returns as net/http
// spells it. It returns false for names that are not for the handler alone, and for
// what is not a name.
func (l *line) name(text []byte) (string, bool) {
	colon := bytes.IndexByte(text, ':')
	if colon < 1 {
		return "", false
	}
	for _, c := range text[:colon] {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return "", false
		}
	}
	l.prefix = colon + 1
	name := textproto.CanonicalMIMEHeaderKey(string(text[:colon]))
	switch name {
	case "Transfer-Encoding", "Trailer", "Expect", "Upgrade", "Pragma":
		return "", false
	case "Content-Length":
		l.kind = length
	case "Host":
		l.kind = host
	case "Connection":
		l.kind = keepalive
	}
	return name, true
}

// take sets the value of a line.
func (h *head) take(l *line, text []byte) bool {
	said := value(text[l.prefix:])
	if said == nil {
		return false
	}
	switch l.kind {
	case host:
		if !isHost(said) {
			return false
		}
		h.host = string(said)
	case keepalive:
		if !strings.EqualFold(string(said), "keep-alive") {
			return false
		}
	}
	l.text = string(text)
	at := l.prefix + bytes.IndexFunc(text[l.prefix:], func(c rune) bool { return c != ' ' && c != '\t' })
	l.value[0] = l.text[at : at+len(said)]
	return true
}

// value returns what is between the colon and the end of a line, without the space
// around it; nil if it has other characters than visible ASCII, spaces and tabs.
func value(text []byte) []byte {
	text, ended := bytes.CutSuffix(text, []byte("\r\n"))
	if !ended {
		return nil
	}
	for _, c := range text {
		if (c < ' ' || c > '~') && c != '\t' {
			return nil
		}
	}
	text = bytes.Trim(text, " \t")
	if text == nil {
		text = []byte{}
	}
	return text
}

// isHost reports whether a value is a plain name or address, with or without port.
func isHost(said []byte) bool {
	for _, c := range said {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_') {
			return false
		}
	}
	return len(said) > 0
}

// maxDigits keeps a Content-Length far from overflow.
const maxDigits = 8

// parseLength returns a Content-Length, or notPlain.
func parseLength(said []byte) int {
	if len(said) == 0 || len(said) > maxDigits {
		return notPlain
	}
	n := 0
	for _, c := range said {
		if c < '0' || c > '9' {
			return notPlain
		}
		n = n*10 + int(c-'0')
	}
	return n
}
