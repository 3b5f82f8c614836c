package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/cmd/outlay/load"
)

// BenchmarkResidence reports the resident memory of `outlay ingest` at 256
// connections: in a small installation, and in one with as many agents, keys and
// caps as a large fleet has. With -benchtime 10m it shows whether it stays the same.
func BenchmarkResidence(b *testing.B) {
	for _, size := range []struct {
		name                 string
		agents, keys, capped int
	}{
		{"small", 200, 0, 0},
		{"large", 100_000, 10_000, 10_000},
	} {
		b.Run(size.name, func(b *testing.B) {
			in := newInstallation(b)
			in.addKeysAndCaps(b, size.keys, size.capped)
			in.startQuery(b)
			in.startProcessor(b)
			ingest := in.startIngest(b)
			time.Sleep(startLasts + time.Second)
			cfg := load.Config{
				BaseURL: in.lastingGateway(b, 256), APIKey: in.credentials.APIKey, Email: in.credentials.Email, Password: in.credentials.Password,
				Events: max(b.N, 1000), Concurrency: 256, Agents: size.agents, Batch: 1, GiveUp: time.Minute, Wait: time.Minute, Progress: io.Discard,
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var samples []float64
			var sampling sync.WaitGroup
			sampling.Go(func() { samples = ingest.sampleResident(ctx) })
			b.ResetTimer()
			report, err := load.Run(ctx, cfg)
			b.StopTimer()
			stop()
			sampling.Wait()
			if err != nil {
				b.Fatal(err)
			}
			half := len(samples) / 2
			b.ReportMetric(slices.Max(samples[:half+1]), "first-half-MiB")
			b.ReportMetric(slices.Max(samples[half:]), "second-half-MiB")
			b.ReportMetric(float64(report.Acknowledged)/report.Elapsed.Seconds(), "events/s")
		})
	}
}

// lastingGateway is an address in front of the tiers that keeps its connections to them.
func (in *installation) lastingGateway(b *testing.B, connections int) string {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	to := func(target *url.URL) http.Handler {
		p := httputil.NewSingleHostReverseProxy(target)
		p.Transport = transport
		return p
	}
	server := httptest.NewServer(oneAddress(to((*in.ingests.Load())[0]), to(in.query)))
	b.Cleanup(server.Close)
	return server.URL
}

// addKeysAndCaps adds API keys that nobody uses and caps of agents.
func (in *installation) addKeysAndCaps(b *testing.B, keys, caps int) {
	b.Helper()
	db, err := pgx.Connect(b.Context(), in.databaseURL)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close(b.Context())
	for sql, n := range map[string]int{
		`insert into api_keys (id, account_id, name, secret_sha256, hint)
		 select gen_random_uuid(), id, 'unused ' || n, sha256(n::text::bytea), '0000' from accounts, generate_series(1, $1::int) n`: keys,
		`insert into budgets (account_id, agent, limit_nano_usd, period, timezone)
		 select id, 'capped-' || n, 1000000000, 'month', 'UTC' from accounts, generate_series(1, $1::int) n`: caps,
	} {
		if _, err := db.Exec(b.Context(), sql, n); err != nil {
			b.Fatal(err)
		}
	}
}

// sampleResident returns the process's resident memory in MiB, ten times a second
// until ctx ends.
func (r *running) sampleResident(ctx context.Context) (samples []float64) {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
		if err != nil {
			return samples
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		var kib float64
		if _, err := fmt.Sscan(rest, &kib); err == nil {
			samples = append(samples, kib/1024)
		}
		select {
		case <-ctx.Done():
			return samples
		case <-time.After(100 * time.Millisecond):
		}
	}
}
