package front

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// laneBytes is the largest request that is read in a lane. Longer ones go to
// net/http: there are few, or many events in each.
const laneBytes = 4 << 10

// lane is a connection that has said nothing but plain requests so far.
type lane struct {
	others *others
	server *Server
	conn   *net.TCPConn
	in     []byte
	have   int // bytes of in that were read
	head   head
	// readBy and writeBy are the deadlines that are set. They are moved only now and
	// then: that costs as much as a small read.
	readBy, writeBy time.Time

	// What the handler is given.
	request http.Request
	url     url.URL
	body    body
	remote  string
}

func newLane(o *others, c *net.TCPConn) *lane {
	return &lane{others: o, server: o.server, conn: c, in: make([]byte, laneBytes), remote: c.RemoteAddr().String()}
}

func (l *lane) run() {
	defer l.server.leave(l)
	if plain := l.serve(); plain {
		_ = l.conn.Close()
		return
	}
	l.server.forget(l)
	l.others.pass(arrival{conn: &unwatched{TCPConn: l.conn, pending: l.in[:l.have]}})
}

// serve answers requests until the connection is to be closed. It returns false if
// what has come has to be answered by net/http.
func (l *lane) serve() (plain bool) {
	for timeout := l.server.headerTimeout(); ; timeout = l.server.idleTimeout() {
		if l.have < fewest && !l.await(timeout) {
			return true
		}
		begin, length, ok := l.head.parse(l.in[:l.have], l.server.paths)
		if !ok || begin+length > len(l.in) {
			return false
		}
		whole := l.finish(begin + length)
		if !l.answer(begin, min(begin+length, l.have), length, whole) || whole != nil {
			return true
		}
		l.have = copy(l.in, l.in[begin+length:l.have])
	}
}

// fewest is how many bytes may be the beginning of a request. net/http waits for as
// many.
const fewest = 4

// await reads the beginning of a request, and reports whether one came.
func (l *lane) await(timeout time.Duration) bool {
	l.limit(timeout)
	for l.have < fewest {
		if l.server.closing.Load() {
			return false // After limit, which may have undone that close wakes us.
		}
		n, err := l.conn.Read(l.in[l.have:])
		if l.have += n; err != nil {
			return false
		}
	}
	return true
}

// limit sets the deadline for reading, unless the present one will do: an idle
// connection may be closed by a sixteenth too early.
func (l *lane) limit(timeout time.Duration) {
	if timeout == 0 {
		if !l.readBy.IsZero() {
			l.setReadBy(time.Time{})
		}
		return
	}
	by := time.Now().Add(timeout)
	if early := by.Sub(l.readBy); early < 0 || early > timeout/16 {
		l.setReadBy(by)
	}
}

func (l *lane) setReadBy(t time.Time) {
	l.readBy = t
	_ = l.conn.SetReadDeadline(t)
}

// finish reads the rest of a request, of which want bytes are in in. A client that
// sends head and body one after the other is still plain. The error is what the
// reader of the body has to be told.
func (l *lane) finish(want int) error {
	if l.have >= want {
		return nil
	}
	var by time.Time
	if timeout := l.server.http.ReadTimeout; timeout > 0 {
		by = time.Now().Add(timeout)
	}
	l.setReadBy(by)
	for l.have < want {
		n, err := l.conn.Read(l.in[l.have:])
		l.have += n
		switch {
		case l.have >= want:
			return nil
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && (by.IsZero() || time.Now().Before(by)):
			l.setReadBy(by) // The server is closing, but waits for what has begun.
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

// answer has the request in in answered, and reports whether the client may send
// another.
func (l *lane) answer(begin, end, length int, whole error) (keep bool) {
	l.url = url.URL{Path: l.head.path}
	l.body = body{rest: l.in[begin:end], end: whole}
	l.request = http.Request{
		Method: http.MethodPost, URL: &l.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: l.head.header,
		Body: &l.body, ContentLength: int64(length), Host: l.head.host, RemoteAddr: l.remote, RequestURI: l.head.path,
	}
	if length == 0 {
		l.request.Body = http.NoBody
	}
	a := answers.Get().(*answer)
	if !l.handle(a) {
		return false // It is not known who still has the answer.
	}
	now := time.Now()
	last := whole != nil || l.server.closing.Load()
	out, last := a.finish(l.server, now, last)
	if timeout := l.server.http.WriteTimeout; timeout > 0 && l.writeBy.Sub(now) < timeout/2 {
		l.writeBy = now.Add(timeout)
		_ = l.conn.SetWriteDeadline(l.writeBy)
	}
	_, err := l.conn.Write(out)
	a.release()
	return err == nil && !last
}

// handle calls the handler. It returns false if the handler panicked: then the
// connection ends without an answer, as it would with net/http.
func (l *lane) handle(a *answer) (returned bool) {
	defer func() {
		if !returned {
			_ = recover()
		}
	}()
	l.server.http.Handler.ServeHTTP(a, &l.request)
	return true
}

// body is what the handler reads of the client's bytes.
type body struct {
	rest []byte
	end  error // nil for io.EOF
}

// Read reads the body.
func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	switch {
	case len(b.rest) > 0:
		return n, nil
	case b.end != nil:
		return n, b.end
	}
	return n, io.EOF
}

// Close does nothing: the body is in memory.
func (b *body) Close() error { return nil }
