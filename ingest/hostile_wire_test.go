package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/httpserver"
)

// hostileServer is a server with the settings of the real one, save that it loses
// its patience sooner.
func hostileServer(t *testing.T, f *fixture) string {
	t.Helper()
	s := startServer(t, f.ingest.Handler(), httpserver.Config{
		IdleTimeout: 3 * time.Second, BodyTimeout: 4 * time.Second, WriteTimeout: time.Minute,
	})
	return s.Listener.Addr().String()
}

// speak sends bytes as they are, leaves the connection open, and returns the
// statuses of all answers that came until the server closed it.
func speak(address, text string) (statuses string, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	// A server that has answered may close before all was sent.
	_, _ = io.WriteString(conn, text)
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			if strings.Contains(err.Error(), "timeout") {
				return strings.TrimSpace(statuses + " open"), nil
			}
			return statuses, nil
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		statuses = strings.TrimSpace(fmt.Sprint(statuses, " ", resp.StatusCode))
	}
}

// Requests that only a raw connection can send: wrong lengths, smuggling, chunks,
// headers, and senders that are slow or stop. Each ends with the connection closed,
// and nothing that a proxy could read in another way is recorded.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	address := hostileServer(t, f)
	const event = `{"agent":"a"}`
	head := "POST /v1/track HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + f.secret + "\r\n"
	sized := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	const closed = "Connection: close\r\n"
	chunked := "Transfer-Encoding: chunked\r\n"
	var speaking sync.WaitGroup // All at once: many of them end when the server loses patience.
	for _, c := range []struct{ name, text, statuses string }{
		{"as it should be", head + sized(13) + closed + "\r\n" + event, "200"},
		{"two in a row", head + sized(13) + "\r\n" + event + head + sized(13) + closed + "\r\n" + event, "200 200"},
		{"length too short", head + sized(12) + "\r\n" + event, "422"},
		{"length too long", head + sized(14) + "\r\n" + event, "422"},
		{"length of zero", head + sized(0) + "\r\n" + event, "422 400"},
		{"length of a terabyte", head + "Content-Length: 1099511627776\r\n\r\n" + event, "413"},
		{"negative length", head + "Content-Length: -1\r\n\r\n" + event, "400"},
		{"signed length", head + "Content-Length: +13\r\n\r\n" + event, "400"},
		{"length beyond 64 bits", head + "Content-Length: 99999999999999999999\r\n\r\n" + event, "400"},
		{"two lengths", head + sized(13) + sized(12) + "\r\n" + event, "400"},
		{"the same length twice", head + sized(13) + sized(13) + closed + "\r\n" + event, "200"},
		{"no length", head + "\r\n" + event, "422 400"},
		{"length and chunks", head + sized(4) + chunked + "\r\n" + "d\r\n" + event + "\r\n0\r\n\r\n", "200"},
		{"another request behind length and chunks", head + sized(4) + chunked + "\r\n" + "d\r\n" + event + "\r\n0\r\n\r\n" + head + sized(13) + "\r\n" + event, "200"},
		{"another request behind chunks", head + chunked + "\r\n" + "d\r\n" + event + "\r\n0\r\n\r\n" + head + sized(13) + "\r\n" + event, "200"},
		{"chunks", head + chunked + closed + "\r\n" + "4\r\n{\"ag\r\n9\r\nent\":\"a\"}\r\n0\r\n\r\n", "200"},
		{"chunks with an extension and a trailer", head + chunked + closed + "\r\n" + "d;x=1\r\n" + event + "\r\n0\r\nAgent: b\r\n\r\n", "200"},
		{"chunks without an end", head + chunked + "\r\n" + "d\r\n" + event + "\r\n", "422"},
		{"chunk size that is none", head + chunked + "\r\n" + "zz\r\n" + event, "422"},
		{"negative chunk", head + chunked + "\r\n" + "-1\r\n" + event, "422"},
		{"chunk size beyond 64 bits", head + chunked + "\r\n" + "fffffffffffffffff\r\n" + event, "422"},
		{"chunk shorter than said", head + chunked + "\r\n" + "ff\r\n" + event + "\r\n0\r\n\r\n", "422"},
		{"chunks of too much", head + chunked + "\r\n" + "40001\r\n" + padded(256<<10+1) + "\r\n0\r\n\r\n", "413"},
		{"chunks that are not called so", head + "Transfer-Encoding: xchunked\r\n\r\n" + "d\r\n" + event + "\r\n0\r\n\r\n", "501"},
		{"chunks twice", head + chunked + chunked + "\r\n" + "d\r\n" + event + "\r\n0\r\n\r\n", "501"},
		{"gzip and chunks", head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + event, "501"},
		{"two keys", head + "Authorization: Bearer x\r\n" + sized(13) + closed + "\r\n" + event, "401"},
		{"the same key twice", head + "Authorization: Bearer " + f.secret + "\r\n" + sized(13) + closed + "\r\n" + event, "401"},
		{"two idempotency keys", head + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n" + sized(13) + closed + "\r\n" + event, "422"},
		{"empty idempotency key", head + "Idempotency-Key:\r\n" + sized(13) + closed + "\r\n" + event, "422"},
		{"two types", head + "Content-Type: application/json\r\nContent-Type: text/plain\r\n" + sized(13) + closed + "\r\n" + event, "200"},
		{"no host", "POST /v1/track HTTP/1.1\r\n" + sized(13) + "\r\n" + event, "400"},
		{"two hosts", head + "Host: y\r\n" + sized(13) + "\r\n" + event, "400"},
		{"blank in a name", head + "X Y: z\r\n" + sized(13) + "\r\n" + event, "400"},
		{"blank before the colon", head + "Content-Length : 13\r\n\r\n" + event, "400"},
		{"NUL in a header", head + "X: \x00\r\n" + sized(13) + "\r\n" + event, "400"},
		{"bare carriage return in a header", head + "X: a\rb\r\n" + sized(13) + "\r\n" + event, "400"},
		{"header of 64 KiB", head + "X: " + strings.Repeat("x", 64<<10) + "\r\n" + sized(13) + "\r\n" + event, "431"},
		{"5000 headers", head + strings.Repeat("X: y\r\n", 5000) + sized(13) + "\r\n" + event, "431"},
		{"HTTP/9", "POST /v1/track HTTP/9.9\r\n\r\n", "505"},
		{"no protocol", "POST /v1/track\r\n\r\n", "400"},
		{"another protocol", "\x16\x03\x01\x02\x00\x01\x00", "400"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404"},
		{"a path that is an address", strings.Replace(head, "/v1/track", "http://other.example/v1/track", 1) + sized(13) + closed + "\r\n" + event, "200"},
		{"a path of bytes", strings.Replace(head, "/v1/track", "/v1/\x00track", 1) + sized(13) + "\r\n" + event, "400"},
		{"wanting to continue", head + sized(13) + "Expect: 100-continue\r\n" + closed + "\r\n" + event, "100 200"},
		{"wanting to continue with too much", head + sized(1<<20) + "Expect: 100-continue\r\n\r\n", "413"},
		{"expecting something else", head + sized(13) + "Expect: miracles\r\n\r\n" + event, "417"},
		{"nothing at all", "", ""},
		{"half a header", head, ""},
		{"half a body", head + sized(1000) + "\r\n" + event, "422"},
		{"half a gzip body", head + sized(1000) + "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08", "422"},
		{"no body", head + sized(13) + "\r\n", "422"},
	} {
		speaking.Go(func() {
			got, err := speak(address, c.text)
			if err != nil || got != c.statuses {
				t.Errorf("%s: statuses %q, want %q, %v", c.name, got, c.statuses, err)
			}
		})
	}
	speaking.Wait()
}

// A sender that drips its body is cut off, however steadily it drips.
func TestSlowSenderIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	conn, err := net.Dial("tcp", hostileServer(t, f))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/track HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n\r\n", f.secret)
	drip := time.NewTicker(20 * time.Millisecond)
	defer drip.Stop()
	started := time.Now()
	for range drip.C {
		if _, err := io.WriteString(conn, " "); err != nil {
			return
		}
		if time.Since(started) > time.Minute {
			t.Fatal("still read after a minute, with a limit of 4 s")
		}
	}
}
