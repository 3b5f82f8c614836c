// Package front is where connections reach ingest. It answers plain requests to a
// few paths by itself, in memory that a connection uses again and again, and gives
// every connection that says anything else to net/http, with all that it has said.
// What a request means is left to the handler, which is the same for both.
package front

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is an http.Server with a front: reading a request and writing its answer
// takes net/http about a third of the CPU time of a tracked event, and most of it
// goes into what such a request does not need.
//
// A plain request has the method POST and one of the paths, HTTP/1.1, each header
// once, all of them together in less than 4 KiB, and a Content-Length of at most 256
// KiB. The handler is given the same request as by net/http, but for these: the header
// has no Content-Length, the request's context never ends, and neither request nor
// header may be changed, or kept after the handler has returned. The answer is sent
// as a whole then; or before, when the handler has set its Content-Length and writes
// all of it at once.
type Server struct {
	http *http.Server
	// paths has the path of each request line that is plain.
	paths map[string]string
	date  atomic.Pointer[date]

	// closing says that no further request is waited for.
	closing atomic.Bool
	mu      sync.Mutex
	lanes   map[*lane]struct{}
	// running counts lanes and those who accept connections.
	running sync.WaitGroup
}

// New returns s with a front for POST requests to the paths. The handler and the
// timeouts are those of s, which the Server has for itself from now on.
func New(s *http.Server, paths ...string) *Server {
	f := &Server{http: s, paths: map[string]string{}, lanes: map[*lane]struct{}{}}
	for _, path := range paths {
		f.paths["POST "+path+" HTTP/1.1\r\n"] = path
	}
	return f
}

// Serve answers requests on l until Shutdown, and then returns http.ErrServerClosed.
// Without paths there is no front.
func (s *Server) Serve(l net.Listener) error {
	if len(s.paths) > 0 {
		l = s.Listen(l)
	}
	return s.http.Serve(l)
}

// Listen returns a listener for the http.Server itself, for callers that have it
// serve in a way of their own. Requests are read from l from now on.
func (s *Server) Listen(l net.Listener) net.Listener {
	o := &others{Listener: l, server: s, arriving: make(chan arrival), done: make(chan struct{})}
	if s.enter(nil) {
		go o.acceptAll()
	}
	return o
}

// Shutdown ends the Server as http.Server.Shutdown does: what is being answered is
// waited for, but no longer than ctx lasts.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close()
	err := s.http.Shutdown(ctx)
	left := make(chan struct{})
	go func() {
		s.running.Wait()
		close(left)
	}()
	select {
	case <-left:
		return err
	case <-ctx.Done():
		s.abandon()
		return errors.Join(err, ctx.Err())
	}
}

// enter counts a lane, or somebody who accepts connections, unless it is too late.
func (s *Server) enter(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	if l != nil {
		s.lanes[l] = struct{}{}
	}
	s.running.Add(1)
	return true
}

// forget leaves the connection of a lane alone from now on: it is net/http's.
func (s *Server) forget(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, l)
}

func (s *Server) leave(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, l)
	s.running.Done()
}

// close wakes the lanes that wait for a request.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	for l := range s.lanes {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// abandon ends the connections of those who are still answered.
func (s *Server) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.lanes {
		_ = l.conn.Close()
	}
}

// idleTimeout is what net/http makes of the settings. None is 0.
func (s *Server) idleTimeout() time.Duration {
	if s.http.IdleTimeout != 0 {
		return max(0, s.http.IdleTimeout)
	}
	return max(0, s.http.ReadTimeout)
}

// date is a second as the header Date has it.
type date struct {
	second int64
	text   []byte
}

// appendDate appends the value of the header Date.
func (s *Server) appendDate(dst []byte, now time.Time) []byte {
	d := s.date.Load()
	if second := now.Unix(); d == nil || d.second != second {
		d = &date{second, now.UTC().AppendFormat(nil, http.TimeFormat)}
		s.date.Store(d)
	}
	return append(dst, d.text...)
}
