package httpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/httpserver"
)

// patience is a timeout that is waited for in tests, long enough for a busy machine
// to do what has to be done within it.
const patience = 400 * time.Millisecond

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	_, _ = w.Write(body)
}

// serve answers requests with h until stop is called or the test ends.
func serve(t *testing.T, h http.HandlerFunc, c httpserver.Config) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- httpserver.Serve(ctx, l, h, c) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return l.Addr().String(), stop
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	fatal(t, err)
	t.Cleanup(func() { _ = c.Close() })
	fatal(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	fatal(t, err)
}

// read returns the next response and its body.
func read(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	fatal(t, err)
	body, err := io.ReadAll(response.Body)
	fatal(t, err)
	return response, string(body)
}

const whole = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"

// Whoever sends half a header or half a body is disconnected, also after a request
// that was complete.
func TestSlowSendersAreDisconnected(t *testing.T) {
	t.Parallel()
	for _, beginning := range []string{
		"", "P", "POST / HTTP/1.1\r\nHo", whole[:len(whole)-1], "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n{",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
	} {
		t.Run(fmt.Sprintf("%d bytes", len(beginning)), func(t *testing.T) {
			t.Parallel()
			address, _ := serve(t, echo, httpserver.Config{IdleTimeout: patience, BodyTimeout: patience})
			c := dial(t, address)
			r := bufio.NewReader(c)
			write(t, c, whole)
			read(t, r)
			write(t, c, beginning)
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Errorf("got %v, want the end of the connection", err)
			}
		})
	}
}

// A connection that was opened ahead of need is idle, and its first body has as long
// as any other.
func TestConnectionMayBeOpenedAhead(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, echo, httpserver.Config{BodyTimeout: 2 * patience})
	c := dial(t, address)
	time.Sleep(3 * patience)
	write(t, c, whole[:len(whole)-2])
	time.Sleep(patience)
	write(t, c, "{}")
	if response, body := read(t, bufio.NewReader(c)); response.StatusCode != http.StatusOK || body != "{}" {
		t.Errorf("status %d, body %q", response.StatusCode, body)
	}
}

// The time for the body does not limit the time for the response.
func TestResponseMayTakeLongerThanABody(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{"without a body": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "with a body": whole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				select {
				case <-time.After(3 * patience):
				case <-r.Context().Done():
					w.WriteHeader(http.StatusInternalServerError)
				}
			}, httpserver.Config{BodyTimeout: patience})
			c := dial(t, address)
			write(t, c, request)
			if response, _ := read(t, bufio.NewReader(c)); response.StatusCode != http.StatusOK {
				t.Errorf("status %d: the request's context ended", response.StatusCode)
			}
		})
	}
}

func TestLargeHeaderIs431(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, echo, httpserver.Config{})
	for size, want := range map[int]int{15 << 10: 200, 64 << 10: 431} {
		c := dial(t, address)
		// The server may respond before it has read everything.
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("x", size)+"\r\nContent-Length: 0\r\n\r\n")
		if response, _ := read(t, bufio.NewReader(c)); response.StatusCode != want {
			t.Errorf("header of %d bytes: status %d, want %d", size, response.StatusCode, want)
		}
	}
}

// Serve closes idle connections at once when it stops, waits for requests under way,
// and announces that their connection ends.
func TestServeFinishesRequestsUnderWay(t *testing.T) {
	t.Parallel()
	began, proceed := make(chan struct{}), make(chan struct{})
	address, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Wait") != "" {
			close(began)
			<-proceed
		}
		echo(w, r)
	}, httpserver.Config{})
	idle, busy := dial(t, address), dial(t, address)
	write(t, idle, whole)
	idleReader := bufio.NewReader(idle)
	read(t, idleReader)
	write(t, busy, "POST / HTTP/1.1\r\nHost: a\r\nWait: 1\r\nContent-Length: 3\r\n\r\n{") // the rest comes later
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if _, err := idleReader.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	close(proceed)
	write(t, busy, " }")
	if response, body := read(t, bufio.NewReader(busy)); body != "{ }" || !response.Close {
		t.Errorf("body %q, close %t", body, response.Close)
	}
	fatal(t, <-stopped)
}

// Serve does not wait longer than the drain timeout.
func TestServeGivesUpWaiting(t *testing.T) {
	t.Parallel()
	began, proceed := make(chan struct{}), make(chan struct{})
	address, stop := serve(t, func(http.ResponseWriter, *http.Request) {
		close(began)
		<-proceed
	}, httpserver.Config{DrainTimeout: patience})
	write(t, dial(t, address), whole)
	<-began
	if err := stop(); err == nil {
		t.Error("no error although a request is under way")
	}
	close(proceed)
}
