package front

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer is the http.ResponseWriter of a lane. It collects what the handler says.
type answer struct {
	header http.Header
	names  []string
	// out begins with the status line and the header once the status is known, and
	// ends with what is written to the client.
	out    []byte
	body   []byte
	status int
	// typed and last say that the handler has set Content-Type, and Connection.
	typed, last bool
}

// answers are used again with their memory, by any connection.
var answers = sync.Pool{New: func() any { return &answer{header: http.Header{}} }}

// maxKept keeps one large answer from holding memory for ever.
const maxKept = 16 << 10

func (a *answer) release() {
	if cap(a.body) > maxKept {
		return
	}
	clear(a.header)
	*a = answer{header: a.header, names: a.names[:0], out: a.out[:0], body: a.body[:0]}
	answers.Put(a)
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
	slices.Sort(a.names)
	for _, name := range a.names {
		switch name {
		case "Content-Length", "Transfer-Encoding":
			continue
		case "Connection":
			a.last = true
			continue
		case "Content-Type":
			a.typed = true
		}
		for _, value := range a.header[name] {
			a.line(name, value)
		}
	}
}

// line writes a header. A value cannot bring its own end of line.
func (a *answer) line(name, value string) {
	a.out = append(append(a.out, name...), ": "...)
	begin := len(a.out)
	a.out = append(a.out, value...)
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		for i, c := range a.out[begin:] {
			if c == '\n' || c == '\r' {
				a.out[begin+i] = ' '
			}
		}
	}
	a.out = append(a.out, "\r\n"...)
}

// Write takes a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

// finish returns the answer as it is sent, and whether it is the last on its
// connection, which it is if last is true.
func (a *answer) finish(s *Server, now time.Time, last bool) (out []byte, isLast bool) {
	a.WriteHeader(http.StatusOK)
	if !a.typed && len(a.body) > 0 {
		a.line("Content-Type", http.DetectContentType(a.body))
	}
	a.out = append(s.appendDate(append(a.out, "Date: "...), now), "\r\n"...)
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		a.out = strconv.AppendInt(append(a.out, "Content-Length: "...), int64(len(a.body)), 10)
		a.out = append(a.out, "\r\n"...)
	}
	last = last || a.last
	if last {
		a.out = append(a.out, "Connection: close\r\n"...)
	}
	a.out = append(append(a.out, "\r\n"...), a.body...)
	return a.out, last
}
