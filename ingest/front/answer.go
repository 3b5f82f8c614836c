package front

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer is the http.ResponseWriter of a lane. It collects what the handler says.
type answer struct {
	lane   *lane
	header http.Header
	// fields are the headers that SetHeader has set, text their values.
	fields []field
	text   []byte
	names  []string
	// out begins with the status line and the header once the status is known, and
	// ends with what is written to the client.
	out    []byte
	body   []byte
	status int
	// length is the Content-Length that the handler has set, or unsaid.
	length int
	// typed and last say that the handler has set Content-Type, and Connection.
	typed, last bool
	// sent says that the answer is on its way. The connection is broken then if it did not arrive or has
	// another length than it says.
	sent, broken bool
}

// unsaid stands for a Content-Length that the handler leaves to the lane.
const unsaid = -1

// answers are used again with their memory, by any connection.
var answers = sync.Pool{New: func() any { return &answer{header: http.Header{}, length: unsaid} }}

// maxKept keeps one large answer from holding memory for ever.
const maxKept = 16 << 10

func (a *answer) release() {
	if cap(a.body) > maxKept {
		return
	}
	a.reset()
	answers.Put(a)
}

// reset empties an answer but for its memory.
func (a *answer) reset() {
	clear(a.header)
	*a = answer{header: a.header, fields: a.fields[:0], text: a.text[:0], names: a.names[:0], out: a.out[:0], body: a.body[:0], length: unsaid}
}

// field is a header with one value, which is in the text of its answer.
type field struct {
	name       string
	begin, end int
}

// SetHeader sets a header to one value, of which it keeps a copy. It is for what every
// answer has: on a lane the copy is in memory that is used again, and is not seen in
// w.Header(), which it goes before. Connection, Content-Length, Content-Type, Date and
// Transfer-Encoding, which the server knows or sets itself, are not for it.
func SetHeader(w http.ResponseWriter, name, value string) {
	for {
		switch inner := w.(type) {
		case *answer:
			inner.set(name, value)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			w.Header()[name] = []string{strings.Clone(value)}
			return
		}
	}
}

func (a *answer) set(name, value string) {
	f := field{name: name, begin: len(a.text)}
	a.text = append(a.text, value...)
	f.end = len(a.text)
	if i := a.field(name); i >= 0 {
		a.fields[i] = f
		return
	}
	a.fields = append(a.fields, f)
}

// field returns the index of a field, or -1.
func (a *answer) field(name string) int {
	return slices.IndexFunc(a.fields, func(f field) bool { return f.name == name })
}

// Header returns the header, which may be changed until the status is written.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader writes the status and the header.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < 200 {
		return
	}
	a.status = status
	a.out = append(a.out, "HTTP/1.1 "...)
	a.out = strconv.AppendInt(a.out, int64(status), 10)
	a.out = append(append(append(a.out, ' '), http.StatusText(status)...), "\r\n"...)
	for name := range a.header {
		a.names = append(a.names, name)
	}
	for i := range a.fields {
		a.names = append(a.names, a.fields[i].name)
	}
	slices.Sort(a.names)
	for _, name := range slices.Compact(a.names) {
		if i := a.field(name); i >= 0 {
			a.out = appendLine(a.out, name, a.text[a.fields[i].begin:a.fields[i].end])
			continue
		}
		switch name {
		case "Transfer-Encoding":
			continue
		case "Connection":
			a.last = true
			continue
		case "Content-Length":
			if !a.mayHaveBody() {
				continue
			}
			if a.length = parseLength([]byte(a.header.Get(name))); a.length < 0 {
				a.length = unsaid
				continue
			}
		case "Content-Type":
			a.typed = true
		}
		for _, value := range a.header[name] {
			a.out = appendLine(a.out, name, value)
		}
	}
}

// appendLine appends a header. A value cannot bring its own end of line.
func appendLine[T string | []byte](out []byte, name string, value T) []byte {
	out = append(append(out, name...), ": "...)
	begin := len(out)
	out = append(out, value...)
	if said := out[begin:]; bytes.IndexByte(said, '\n') >= 0 || bytes.IndexByte(said, '\r') >= 0 {
		for i, c := range said {
			if c == '\n' || c == '\r' {
				said[i] = ' '
			}
		}
	}
	return append(out, "\r\n"...)
}

// mayHaveBody reports whether the status allows a body.
func (a *answer) mayHaveBody() bool {
	return a.status != http.StatusNoContent && a.status != http.StatusNotModified
}

// whole is from which length on a body that is written at once is sent at once,
// without being copied.
const whole = 2 << 10

// Write takes a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if len(p) == 0 {
		return 0, nil
	}
	if !a.mayHaveBody() {
		return 0, http.ErrBodyNotAllowed
	}
	if a.length != unsaid && len(p) > a.length-len(a.body) || a.sent {
		a.broken = true
		return 0, http.ErrContentLength
	}
	if len(p) == a.length && len(p) >= whole {
		a.send(p)
		return len(p), nil
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

// send sends the answer with its body. It is the last on its connection if the
// handler has said so, if the request is not complete, and when the server is closing.
func (a *answer) send(body []byte) {
	a.sent = true
	a.WriteHeader(http.StatusOK)
	s := a.lane.server
	a.last = a.lane.body.drain() != nil || a.last || s.closing.Load()
	now := time.Now() // After drain, which may have waited for the client.
	if !a.typed && len(body) > 0 {
		a.out = appendLine(a.out, "Content-Type", http.DetectContentType(body))
	}
	a.out = append(s.appendDate(append(a.out, "Date: "...), now), "\r\n"...)
	if a.length == unsaid && a.mayHaveBody() {
		a.out = strconv.AppendInt(append(a.out, "Content-Length: "...), int64(len(body)), 10)
		a.out = append(a.out, "\r\n"...)
	}
	if a.last {
		a.out = append(a.out, "Connection: close\r\n"...)
	}
	a.out = append(a.out, "\r\n"...)
	if a.length != unsaid && a.length != len(body) {
		a.broken = true
	}
	if len(body) < whole {
		a.out, body = append(a.out, body...), nil
	}
	if err := a.lane.write(a.out, body, now); err != nil {
		a.broken = true
	}
}
