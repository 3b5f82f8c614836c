package front

import (
	"net"
	"sync"
	"time"
)

// others is a listener with the connections that are left to net/http.
type others struct {
	net.Listener
	server   *Server
	arriving chan arrival
	done     chan struct{}
	once     sync.Once
}

// arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

// Accept waits for the next connection that is left to net/http.
func (o *others) Accept() (net.Conn, error) {
	select {
	case a := <-o.arriving:
		return a.conn, a.err
	case <-o.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener. net/http does it before it waits for its own requests.
func (o *others) Close() error {
	o.once.Do(func() { close(o.done) })
	o.server.close()
	return o.Listener.Close()
}

// acceptAll takes every connection and lets it begin in a lane. An error is
// net/http's to judge, which waits a little before it asks again.
func (o *others) acceptAll() {
	defer o.server.leave(nil)
	for {
		c, err := o.Listener.Accept()
		tcp, ok := c.(*net.TCPConn)
		switch {
		case err != nil, !ok:
			if !o.pass(arrival{c, err}) {
				return
			}
		default:
			l := newLane(o, tcp)
			if !o.server.enter(l) {
				_ = tcp.Close()
				return
			}
			go l.run()
		}
	}
}

// pass hands over to net/http, and reports whether it takes anything any more.
func (o *others) pass(a arrival) bool {
	select {
	case o.arriving <- a:
		return true
	case <-o.done:
		if a.conn != nil {
			_ = a.conn.Close()
		}
		return false
	}
}

// unwatched is a connection that net/http does not watch while a request is
// answered. It would read meanwhile, to end the request's context when the client
// hangs up: a read, a wait and two deadlines that are a twelfth of the CPU time of a
// tracked event, which must not end by that anyway. What is waited for has timeouts
// of its own.
//
// net/http's watching read is known by its room for one byte, and answered at once
// and with nothing. net/http then takes the client as present. Should somebody else
// read a single byte, it reads again, which is what a reader does with nothing, and
// the second read is real.
type unwatched struct {
	*net.TCPConn
	// pending was read before, and comes first.
	pending []byte
	// skipped says that the last read was answered with nothing.
	skipped bool
	// unlimited says that no deadline for reading is set. It is set away several
	// times a request, mostly where there is none.
	unlimited bool
}

// Read reads from the client.
func (c *unwatched) Read(p []byte) (int, error) {
	if len(p) == 1 && !c.skipped {
		c.skipped = true
		return 0, nil
	}
	c.skipped = false
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		if c.pending = c.pending[n:]; len(c.pending) == 0 {
			c.pending = nil
		}
		return n, nil
	}
	return c.TCPConn.Read(p)
}

// SetReadDeadline sets the time at which reads fail; none with the zero time.
func (c *unwatched) SetReadDeadline(t time.Time) error {
	if t.IsZero() && c.unlimited {
		return nil
	}
	c.unlimited = t.IsZero()
	return c.TCPConn.SetReadDeadline(t)
}
