package httpserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/httpserver"
)

// get sends a request on c and returns the status of its response.
func get(c net.Conn, path string) (int, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// closed reports whether the server closes c within a while.
func closed(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	fatal(t, c.SetReadDeadline(time.Now().Add(within)))
	_, err := c.Read(make([]byte, 1))
	fatal(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// A connection more than there may be takes the place of the one that has been without a request for longest, also when half a header
// came on it; those with a request under way stay.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	bound := httpserver.NewConnections(4)
	address, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- struct{}{}
			<-finish
		}
	}, httpserver.Config{Connections: bound})

	busy := dial(t, address)
	answered := make(chan error, 1)
	go func() {
		_, err := get(busy, "/slow")
		answered <- err
	}()
	<-began
	silent, half, used := dial(t, address), dial(t, address), dial(t, address)
	_, err := io.WriteString(half, "GET / HTTP/1.1\r\nHost:")
	fatal(t, err)
	if status, err := get(used, "/"); err != nil || status != http.StatusOK {
		t.Fatalf("a connection within the bound is answered %d, %v", status, err)
	}

	for i, want := range []net.Conn{silent, half, used} {
		next := dial(t, address)
		if status, err := get(next, "/"); err != nil || status != http.StatusOK {
			t.Errorf("connection %d more is answered %d, %v", i+1, status, err)
		}
		if !closed(t, want, patience*10) {
			t.Errorf("connection %d more closed another than the one that waited for longest", i+1)
		}
		if open := bound.Open(); open != 4 {
			t.Errorf("%d connections are open, want 4", open)
		}
	}
	if n := bound.ClosedWaiting(); n != 3 || bound.ClosedNew() != 0 {
		t.Errorf("%d waiting and %d new connections were closed, want 3 and 0", n, bound.ClosedNew())
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the request under way got %v", err)
	}
}

// When every connection has a request under way, a new one is closed, until one has come to an end.
func TestNewConnectionIsClosedWhenAllAreBusy(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	bound := httpserver.NewConnections(2)
	address, _ := serve(t, func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-finish
	}, httpserver.Config{Connections: bound})
	answered := make(chan error, 2)
	for range 2 {
		c := dial(t, address)
		go func() {
			_, err := get(c, "/")
			answered <- err
		}()
		<-began
	}
	if !closed(t, dial(t, address), patience*10) {
		t.Error("a third connection is kept")
	}
	if n := bound.ClosedNew(); n != 1 || bound.ClosedWaiting() != 0 {
		t.Errorf("%d new and %d waiting connections were closed, want 1 and 0", n, bound.ClosedWaiting())
	}
	close(finish)
	for range 2 {
		if err := <-answered; err != nil {
			t.Errorf("a request under way got %v", err)
		}
	}
	go func() { <-began }()
	if status, err := get(dial(t, address), "/"); err != nil || status != http.StatusOK {
		t.Errorf("after that a connection is answered %d, %v", status, err)
	}
}

// Connections that clients close make room, and none is counted for ever.
func TestClosedConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	bound := httpserver.NewConnections(3)
	address, stop := serve(t, echo, httpserver.Config{Connections: bound})
	for range 20 {
		c := dial(t, address)
		if status, err := get(c, "/"); err != nil || status != http.StatusOK {
			t.Fatalf("answered %d, %v", status, err)
		}
		fatal(t, c.Close())
		for deadline := time.Now().Add(10 * time.Second); bound.Open() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections are open after they were closed", bound.Open())
			}
		}
	}
	fatal(t, stop())
	if n := bound.ClosedWaiting() + bound.ClosedNew(); n != 0 {
		t.Errorf("%d connections were closed though there was room", n)
	}
}
