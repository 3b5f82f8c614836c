package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The flag bounds the connections of the public listener, and its metrics show them.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	p := &process{
		registry: prometheus.NewRegistry(), log: newLogger(io.Discard, "error", "text"),
		handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
	}
	flags := listenFlags{Listen: "127.0.0.1:0", opsFlags: opsFlags{"127.0.0.1:0"}}
	if err := p.bind(t.Context(), flags); err == nil || !strings.Contains(err.Error(), "--max-connections") {
		t.Errorf("no connections at all: %v", err)
	}
	flags.MaxConnections = 2
	if err := p.bind(t.Context(), flags); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	var first net.Conn
	for i := range 3 {
		c, err := net.Dial("tcp", p.public.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i == 0 {
			first = c
		}
	}
	if err := first.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // A net.Conn returns it as it is.
		t.Errorf("the first connection, read: %v, want that the server closed it", err)
	}
	resp, err := http.Get("http://" + p.ops.Addr().String() + "/metrics") //nolint:noctx // It ends with the server.
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"outlay_http_connections 2\n", `outlay_http_closed_connections_total{state="waiting"} 1` + "\n", `outlay_http_closed_connections_total{state="new"} 0` + "\n"} {
		if !strings.Contains(string(metrics), line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
