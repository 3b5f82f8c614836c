package ingest

import (
	"net"
	"time"
)

// Listener returns l with connections that net/http does not watch while a request
// is answered. It would read from each one meanwhile, to end the request's context
// when the client hangs up: a read, a wait and two deadlines that are a twelfth of
// the CPU time of a tracking request, which must not end by that anyway. What is
// waited for has timeouts of its own.
//
// Connections that are not TCP are left as they are.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &unwatched{TCPConn: tcp}, err
	}
	return c, err
}

// unwatched is a connection that answers net/http's watching read, by which it is
// known that it has room for one byte, at once and with nothing. net/http then
// takes the client as present. Should somebody else read a single byte, it reads
// again, which is what a reader does with nothing, and the second read is real.
type unwatched struct {
	*net.TCPConn
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
