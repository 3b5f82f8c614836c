package httpserver

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Connections bounds how many connections a server holds open. When one more comes, the one that has been without a complete header
// for the longest time is closed, before its first request or between two: whoever opens many and sends nothing takes them
// from himself first. Only when each has a request under way is the new one closed. It is safe for concurrent use.
type Connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]*list.Element // of waiting; nil while a request is under way
	// waiting are the connections without a request, those that have been so for longest first.
	waiting *list.List

	closedWaiting, closedNew atomic.Int64
}

// NewConnections returns a bound of most connections, which is positive.
func NewConnections(most int) *Connections {
	return &Connections{most: most, open: map[net.Conn]*list.Element{}, waiting: list.New()}
}

// Open is the number of open connections.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// ClosedWaiting is how many connections without a request were closed to make room.
func (c *Connections) ClosedWaiting() int64 { return c.closedWaiting.Load() }

// ClosedNew is how many were closed at once, because all others had a request under way.
func (c *Connections) ClosedNew() int64 { return c.closedNew.Load() }

// changed is the ConnState of a server. It is called for a new connection before the next is accepted.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		_ = surplus.Close()
	}
}

// note keeps the books, and returns the connection that is too many, or nil. That one is not in the books any more.
func (c *Connections) note(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.open[conn]
	switch {
	case state == http.StateNew:
		if len(c.open) >= c.most {
			oldest := c.waiting.Front()
			if oldest == nil {
				c.closedNew.Add(1)
				return conn
			}
			surplus = oldest.Value.(net.Conn)
			c.closedWaiting.Add(1)
			c.forget(surplus, oldest)
		}
		c.open[conn] = c.waiting.PushBack(conn)
	case !known: // It is being closed.
	case state == http.StateActive && at != nil:
		c.waiting.Remove(at)
		c.open[conn] = nil
	case state == http.StateIdle && at == nil:
		c.open[conn] = c.waiting.PushBack(conn)
	case state == http.StateClosed, state == http.StateHijacked:
		c.forget(conn, at)
	}
	return surplus
}

// forget takes a connection out of the books. Its caller holds mu.
func (c *Connections) forget(conn net.Conn, at *list.Element) {
	if at != nil {
		c.waiting.Remove(at)
	}
	delete(c.open, conn)
}
