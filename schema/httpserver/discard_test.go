package httpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/httpserver"
)

func refuse(w http.ResponseWriter, r *http.Request) {
	httpserver.DiscardBody(r)
	w.WriteHeader(http.StatusRequestEntityTooLarge)
}

// A client that sends its whole body before it reads gets the response, and may use
// the connection again.
func TestRefusalIsReadAfterTheBody(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, refuse, httpserver.Config{})
	c := dial(t, address)
	r := bufio.NewReader(c)
	for range 2 {
		const size = 32 << 20
		write(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
		write(t, c, strings.Repeat("x", size))
		if response, _ := read(t, r); response.StatusCode != http.StatusRequestEntityTooLarge || response.Close {
			t.Errorf("status %d, close %t", response.StatusCode, response.Close)
		}
	}
}

// What is thrown away is bounded in bytes and in time; the connection ends with the
// response then.
func TestDiscardIsBounded(t *testing.T) {
	t.Parallel()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
	for name, c := range map[string]struct {
		header, body string
		repeat       int
	}{
		"body without end":  {"Transfer-Encoding: chunked", chunk, 64},
		"body that stalls":  {"Content-Length: 1000", "x", 1},
		"announced as huge": {"Content-Length: 1099511627776", "x", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := serve(t, refuse, httpserver.Config{BodyTimeout: 5 * time.Second})
			conn := dial(t, address)
			write(t, conn, "POST / HTTP/1.1\r\nHost: a\r\n"+c.header+"\r\n\r\n")
			for range c.repeat {
				write(t, conn, c.body)
			}
			r := bufio.NewReader(conn)
			if response, _ := read(t, r); response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close {
				t.Errorf("status %d, close %t", response.StatusCode, response.Close)
			}
			_, _ = io.Copy(io.Discard, r) // until the connection is closed
		})
	}
}

// A client that waits to be told to continue is refused before it sends its body.
func TestRefusalComesInsteadOfContinue(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, refuse, httpserver.Config{})
	c := dial(t, address)
	write(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	if response, _ := read(t, bufio.NewReader(c)); response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close {
		t.Errorf("status %d, close %t", response.StatusCode, response.Close)
	}
}
