package httpserver_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/httpserver"
)

// What net/http refuses before a handler is called has the form of every other error.
func TestUnreadableRequestsAreAnsweredAsProblems(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "the handler's own")
	}, httpserver.Config{})
	for request, status := range map[string]int{
		"nonsense\r\n\r\n":                       400,
		"GET / HTTP/1.1\r\n\r\n":                 400, // without a Host
		"GET / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n": 400,
		"GET / HTTP/3.1\r\nHost: x\r\n\r\n":      400,
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n": 431,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n":               400,
		"POST / HTTP/1.1\r\nHost: x\r\nExpect: more\r\nContent-Length: 0\r\n\r\n":     400,
	} {
		c := dial(t, address)
		// The server may respond before it has read everything.
		_, _ = io.WriteString(c, request)
		resp, body := read(t, bufio.NewReader(c))
		var p struct {
			Type, Title, Detail, Code string
			Status                    int
			RequestID                 string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%.60q: %d %q: %v", request, resp.StatusCode, body, err)
			continue
		}
		if resp.StatusCode != status || p.Status != status || p.Code == "" || p.Title == "" || p.Detail == "" || !resp.Close ||
			p.RequestID == "" || p.RequestID != resp.Header.Get("X-Request-Id") || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60q: %d %v %s", request, resp.StatusCode, resp.Header, body)
		}
	}
	c := dial(t, address)
	write(t, c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if _, body := read(t, bufio.NewReader(c)); body != "the handler's own" {
		t.Errorf("the handler's response became %q", body)
	}
}
