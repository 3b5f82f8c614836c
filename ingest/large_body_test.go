package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that sends its whole body before it reads, as Python's http.client and
// urllib do, gets the response to a body that is refused, whatever it is refused for.
func TestRefusalOfALargeBodyCanBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	large := strings.Repeat("x", 16<<20)
	compressed := zip(t, `{"agent":"`+strings.Repeat("a", 8<<20)+`"}`) + large
	key := "Authorization: Bearer " + f.secret + "\r\n"
	sized := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"event":           {"POST /v1/track HTTP/1.1\r\nHost: a\r\n" + key + sized(large), 413},
		"batch":           {"POST /v1/track/batch HTTP/1.1\r\nHost: a\r\n" + key + sized(large), 413},
		"spans":           {"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + key + sized(large), 413},
		"budgets check":   {"POST /v1/budgets/check HTTP/1.1\r\nHost: a\r\n" + key + sized(large), 413},
		"compressed":      {"POST /v1/track/batch HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n" + key + sized(compressed), 413},
		"chunks":          {"POST /v1/track HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + key + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(large), large), 413},
		"without a key":   {"POST /v1/track/batch HTTP/1.1\r\nHost: a\r\n" + sized(large), 401},
		"no such path":    {"POST /v2/track HTTP/1.1\r\nHost: a\r\n" + sized(large), 404},
		"another method":  {"PUT /v1/track HTTP/1.1\r\nHost: a\r\n" + sized(large), 405},
		"of another type": {"POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n" + key + sized(large), 415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatalf("the body could not be sent: %v", err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("the response could not be read: %v", err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != c.status {
				t.Errorf("status %d, %v; want %d", response.StatusCode, err, c.status)
			}
		})
	}
}
