package limit

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// benchLimiter knows 10 000 accounts and has no database.
func benchLimiter(now func() time.Time) (*Limiter, []schema.ID) {
	cfg := DefaultConfig()
	cfg.Enterprise = maxLimit
	l := New(cfg, Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: now})
	ids := make([]schema.ID, 10_000)
	for i := range ids {
		ids[i] = schema.NewID(now())
		l.Take(ids[i], account.Enterprise, 1)
	}
	l.settle(true)
	l.away.Store(false) // Hands this large never need more.
	return l, ids
}

// BenchmarkTake is what a request of a large plan costs: one account, and many in
// turn; with the real clock and, to tell its share, with one that stands still.
func BenchmarkTake(b *testing.B) {
	still := time.Now()
	for _, clock := range []struct {
		name string
		now  func() time.Time
	}{{"real", time.Now}, {"still", func() time.Time { return still }}} {
		l, ids := benchLimiter(clock.now)
		b.Run("clock="+clock.name+"/one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Take(ids[0], account.Enterprise, 1)
			}
		})
		b.Run("clock="+clock.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.Take(ids[0], account.Enterprise, 1)
				}
			})
		})
		b.Run("clock="+clock.name+"/many", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Take(ids[i%len(ids)], account.Enterprise, 1)
			}
		})
	}
}

// BenchmarkClock is the part of it that reading the clock is.
func BenchmarkClock(b *testing.B) {
	for b.Loop() {
		time.Now()
	}
}

// BenchmarkRefuse is what a flood costs once the window is used up.
func BenchmarkRefuse(b *testing.B) {
	still := time.Now()
	l, ids := benchLimiter(func() time.Time { return still })
	l.away.Store(true)
	for range 60 {
		l.Take(ids[0], account.Free, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		if l.Take(ids[0], account.Free, 1).Allowed {
			b.Fatal("let through")
		}
	}
}
