package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
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
			ingest := in.startIngest(b)
			time.Sleep(startLasts + time.Second)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var samples []float64
			var sampling sync.WaitGroup
			sampling.Go(func() { samples = ingest.sampleResident(ctx) })
			b.ResetTimer()
			in.trackOver(b, 256, size.agents, b.N)
			b.StopTimer()
			stop()
			sampling.Wait()
			half := len(samples) / 2
			b.ReportMetric(slices.Max(samples[:half+1]), "first-half-MiB")
			b.ReportMetric(slices.Max(samples[half:]), "second-half-MiB")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// trackOver sends n events of a number of agents to ingest over connections that
// stay open.
func (in *installation) trackOver(b *testing.B, connections, agents, n int) {
	b.Helper()
	target := (*in.ingests.Load())[0].String() + "/v1/track"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	var next atomic.Int64
	var group errgroup.Group
	for range connections {
		group.Go(func() error {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				body := fmt.Sprintf(`{"agent":"agent-%d","model":"gpt-4o","input_tokens":%d,"output_tokens":%d}`, i%int64(agents), i%9000, i%700)
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, target, strings.NewReader(body))
				if err != nil {
					return err
				}
				req.Header.Set("Authorization", "Bearer "+in.credentials.APIKey)
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				answer, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("answered %s: %s", resp.Status, answer)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
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
