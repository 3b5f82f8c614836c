// Package httpserver is the HTTP server that every tier listens with: how long a
// client may take for each part of a request, how large a header may be, and how
// requests under way end when the process stops. What a request means is left to
// the handler.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// maxHeaderBytes bounds the header of a request; a longer one is answered 431.
const maxHeaderBytes = 16 << 10

// Config says how long clients may take.
type Config struct {
	// IdleTimeout is how long a connection may stay open without a complete header,
	// before its first request and between two. Go's client opens connections ahead of
	// need and keeps idle ones for 90 seconds; one that is closed at the moment it is
	// used costs a request that cannot be sent again by itself. So this is longer, and
	// the header has no shorter limit of its own: a connection with half a header holds
	// no more than an idle one. Defaults to 2 minutes.
	IdleTimeout time.Duration
	// BodyTimeout is how long a body may take to arrive after its header. Defaults to
	// 15 seconds.
	BodyTimeout time.Duration
	// WriteTimeout bounds the time from the end of the header to the end of the
	// response. It is longer than BodyTimeout. Defaults to 30 seconds.
	WriteTimeout time.Duration
	// DrainTimeout is how long Serve waits for requests under way when it stops.
	// Defaults to 15 seconds.
	DrainTimeout time.Duration
	// Connections bounds the connections. Defaults to no bound.
	Connections *Connections
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.IdleTimeout, 2*time.Minute)
	set(&c.BodyTimeout, 15*time.Second)
	set(&c.WriteTimeout, 30*time.Second)
	set(&c.DrainTimeout, 15*time.Second)
	return c
}

// New returns a server for h that is not listening yet.
func New(h http.Handler, c Config) *http.Server {
	c = c.withDefaults()
	s := &http.Server{
		Handler:           limitBodies(h, c.BodyTimeout),
		ReadHeaderTimeout: c.IdleTimeout,
		IdleTimeout:       c.IdleTimeout,
		WriteTimeout:      c.WriteTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// OPTIONS * is answered by h too, in the form of its other errors.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	if c.Connections != nil {
		s.ConnState = c.Connections.changed
	}
	return s
}

// limitBodies sets the deadline of each body. http.Server.ReadTimeout counts from
// when the connection was opened, which would leave less time for the body of one
// that was opened ahead.
func limitBodies(h http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http clears the deadline at the end of the body. Without a body it is
		// watching already whether the client hangs up, which must not time out.
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
		}
		h.ServeHTTP(w, r)
	})
}

// Serve answers requests on l with h until ctx ends, then lets those under way
// finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler, c Config) error {
	server := New(h, c)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener{l}) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.withDefaults().DrainTimeout)
	defer cancel()
	err := server.Shutdown(drainCtx)
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("drain %s: %w", l.Addr(), err)
	}
	return nil
}
