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

// laneBytes is the memory of a lane. Of a request that is longer than that the handler
// reads the rest from the connection.
const laneBytes = 4 << 10

// maxBody is the longest body of a plain request. What a handler leaves of it is read
// and thrown away before the answer is sent, so that the client sees the answer and
// may go on; net/http does so up to the same length.
const maxBody = 256 << 10

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
	// out and buffers are what is written to the client at once.
	out     [2][]byte
	buffers net.Buffers
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
//
// A connection on which nothing has come yet is as idle as one between two requests.
// net/http gives it the time of a head only, but clients such as Go's connect ahead and
// keep what they do not need at once: one that is closed at the moment it is used costs
// a request, which a client without a key cannot send again.
func (l *lane) serve() (plain bool) {
	for {
		if l.have < fewest && !l.await(l.server.idleTimeout()) {
			return true
		}
		begin, length, ok := l.head.parse(l.in[:l.have], l.server.paths)
		if !ok || length > maxBody {
			return false
		}
		next := begin + length
		if next <= len(l.in) {
			l.body = body{end: l.finish(next)}
		} else {
			l.body = body{lane: l, left: next - l.have, by: l.startBody()}
		}
		l.body.rest = l.in[begin:min(next, l.have)]
		if !l.answer(length) {
			return true
		}
		l.have = copy(l.in, l.in[min(next, l.have):l.have])
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
	for by := l.startBody(); l.have < want; {
		n, err := l.more(l.in[l.have:], by)
		if l.have += n; err != nil && l.have < want {
			return err
		}
	}
	return nil
}

// startBody sets the deadline for the rest of a body, and returns it: none is zero.
func (l *lane) startBody() (by time.Time) {
	if timeout := l.server.http.ReadTimeout; timeout > 0 {
		by = time.Now().Add(timeout)
	}
	l.setReadBy(by)
	return by
}

// more reads some of a body that has to be there by the given time.
func (l *lane) more(p []byte, by time.Time) (int, error) {
	for {
		n, err := l.conn.Read(p)
		switch {
		case n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && (by.IsZero() || time.Now().Before(by)):
			l.setReadBy(by) // The server is closing, but waits for what has begun.
			continue
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
}

// answer has the request in in answered, and reports whether the client may send
// another.
func (l *lane) answer(length int) (keep bool) {
	l.url = url.URL{Path: l.head.path}
	l.request = http.Request{
		Method: http.MethodPost, URL: &l.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: l.head.header,
		Body: &l.body, ContentLength: int64(length), Host: l.head.host, RemoteAddr: l.remote, RequestURI: l.head.path,
	}
	if length == 0 {
		l.request.Body = http.NoBody
	}
	a := answers.Get().(*answer)
	a.lane = l
	if !l.handle(a) {
		return false // It is not known who still has the answer.
	}
	if !a.sent {
		a.send(a.body)
	}
	keep = !a.broken && !a.last
	a.release()
	return keep
}

// write sends the head of an answer and its body.
func (l *lane) write(head, body []byte, now time.Time) error {
	if timeout := l.server.http.WriteTimeout; timeout > 0 && l.writeBy.Sub(now) < timeout/2 {
		l.writeBy = now.Add(timeout)
		_ = l.conn.SetWriteDeadline(l.writeBy)
	}
	if len(body) == 0 {
		_, err := l.conn.Write(head)
		return err
	}
	l.out = [2][]byte{head, body}
	l.buffers = l.out[:]
	_, err := l.buffers.WriteTo(l.conn)
	l.out = [2][]byte{}
	return err
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
	rest []byte // in the memory of the lane
	// left is how much comes from the connection after that, and by when.
	lane *lane
	left int
	by   time.Time
	// end is what follows; nil for io.EOF.
	end error
	// closed says that the answer was sent.
	closed bool
}

// Read reads the body.
func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) > 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, b.after()
	}
	if b.left == 0 || b.end != nil || len(p) == 0 {
		return 0, b.after()
	}
	n, err := b.lane.more(p[:min(len(p), b.left)], b.by)
	if b.left -= n; b.left > 0 {
		b.end = err
	}
	return n, b.after()
}

// after is the error that goes with the bytes read last.
func (b *body) after() error {
	switch {
	case len(b.rest) > 0:
		return nil
	case b.end != nil:
		return b.end
	case b.left > 0:
		return nil
	}
	return io.EOF
}

// drain throws away what the handler has not read, and returns an error unless the
// whole body came.
func (b *body) drain() error {
	b.rest = nil
	if b.left > 0 {
		_, _ = io.Copy(io.Discard, b)
	}
	b.closed = true
	return b.end
}

// Close does nothing: what is left is read before the answer is sent.
func (b *body) Close() error { return nil }
