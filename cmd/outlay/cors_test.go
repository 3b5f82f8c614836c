package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema/cors"
)

// Every tier that listens takes --cors-origin, and lets pages of these origins in.
func TestOriginsAreLetIn(t *testing.T) {
	t.Parallel()
	for command, args := range map[string][]string{
		"up": {"up"}, "ingest": {"ingest", "--database-url=x", "--kafka-brokers=x"}, "query": {"query", "--database-url=x", "--jwt-key-file=x"},
	} {
		var c cli
		if _, err := newParser(&c).Parse(append(args, "--cors-origin=https://a.example,https://b.example", "--cors-origin=https://c.example")); err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{"up": c.Up.CORS.Origins, "ingest": c.Ingest.CORS.Origins, "query": c.Query.CORS.Origins}[command]
		if strings.Join(got, " ") != "https://a.example https://b.example https://c.example" {
			t.Errorf("%s: origins %q", command, got)
		}
	}
	flags := listenFlags{Listen: "127.0.0.1:0", MaxConnections: 10, opsFlags: opsFlags{"127.0.0.1:0"}, CORS: cors.Config{Origins: []string{"app.example.com"}}}
	p := &process{
		registry: prometheus.NewRegistry(), log: newLogger(io.Discard, "error", "text"),
		handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
	}
	if err := p.bind(t.Context(), flags); err == nil || !strings.Contains(err.Error(), "--cors-origin") {
		t.Errorf("a bad origin: %v", err)
	}
	flags.CORS.Origins[0] = "https://app.example.com"
	if err := p.bind(t.Context(), flags); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.public.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", flags.CORS.Origins[0])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != flags.CORS.Origins[0] {
		t.Errorf("allowed %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
