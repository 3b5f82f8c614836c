package query_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/wire"
)

const (
	storedPerSecond = 20_000
	storedAtOnce    = 5_000
	foldedAtOnce    = 20_000
	// storingRounds is how often each endpoint is asked alone, and while events are stored.
	storingRounds = 15
)

// whileStoring measures the answers alone and while a processor stores events.
func (r *reads) whileStoring(b *testing.B) {
	r.t = b
	paths := r.paths()
	alone, busy := make([][]time.Duration, len(paths)), make([][]time.Duration, len(paths))
	all := func(into [][]time.Duration) {
		for range storingRounds {
			for i, p := range paths {
				into[i] = append(into[i], r.ask(p.path))
			}
		}
	}
	r.ask(paths[0].path)
	for b.Loop() {
		all(alone)
		ctx, stop := context.WithCancel(b.Context())
		stored, began := 0, time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { stored = r.storeOn(ctx) })
		all(busy)
		stop()
		wg.Wait()
		b.ReportMetric(float64(stored)/time.Since(began).Seconds(), "stored/s")
	}
	for i, p := range paths {
		fmt.Fprintf(os.Stderr, "%-28s alone %8v, while storing %8v, ratio %.2f\n", p.name, // A benchmark's log has ten lines.
			median(alone[i]).Round(10*time.Microsecond), median(busy[i]).Round(10*time.Microsecond), ratio(busy[i], alone[i]))
	}
	b.ReportMetric(ratio(slices.Concat(busy...), slices.Concat(alone...)), "storing/alone")
}

// storeOn saves batches of new events as a processor does, with a pool of its own, until
// ctx ends, and returns how many. It is 20 000 events a second, or as many as there is
// time for.
func (r *reads) storeOn(ctx context.Context) (stored int) {
	whole := context.WithoutCancel(ctx) // a batch that was begun comes to its end
	pool, err := pgxpool.New(whole, r.address)
	if err != nil {
		r.t.Error(err)
		return 0
	}
	defer pool.Close()
	topic := "benchmark of reads " + time.Now().Format(time.RFC3339)
	if _, err := timescale.NewPositions(pool, topic).Next(whole, []int32{0}); err != nil {
		r.t.Error(err)
		return 0
	}
	sink := timescale.New(pool, topic)
	var folding sync.WaitGroup
	defer folding.Wait()
	folding.Go(func() { r.foldOn(ctx, pool, `SELECT fold_sessions($1)`, time.Second/4) })
	folding.Go(func() { r.refreshOn(ctx, pool) })
	tick := time.NewTicker(time.Second * storedAtOnce / storedPerSecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stored
		case <-tick.C:
		}
		span := timescale.Span{First: int64(stored), Next: int64(stored + storedAtOnce)}
		_, err := sink.Save(whole, []timescale.Span{span}, r.fleet.arriving(span.First))
		if err != nil {
			r.t.Errorf("store: %v", err)
			return stored
		}
		stored += storedAtOnce
	}
}

// foldOn folds what the batches add as often as a processor does, until ctx ends.
func (r *reads) foldOn(ctx context.Context, pool *pgxpool.Pool, parts string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for folded := foldedAtOnce; folded == foldedAtOnce; {
			if err := pool.QueryRow(context.WithoutCancel(ctx), parts, foldedAtOnce).Scan(&folded); err != nil {
				r.t.Errorf("fold: %v", err)
				return
			}
		}
	}
}

// refreshOn refreshes the rollups as often as a processor does, until ctx ends.
func (r *reads) refreshOn(ctx context.Context, pool *pgxpool.Pool) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		conn, err := pool.Acquire(context.WithoutCancel(ctx))
		if err == nil {
			_, err = upkeep.RefreshRollups(context.WithoutCancel(ctx), conn.Conn(), time.Now())
			conn.Release()
		}
		if err != nil {
			r.t.Errorf("refresh: %v", err)
			return
		}
	}
}

// arriving is a batch of events that happen now, of the agents and models that the
// fleet has.
func (f *fleet) arriving(first int64) []timescale.Item {
	items := make([]timescale.Item, storedAtOnce)
	now := time.Now().UTC().Truncate(time.Microsecond)
	breakdown := price.Quote{Rule: "equals gpt-4o", Parts: price.Parts{price.Input: {Tokens: 1200, RatePicoUSD: 2_500_000, CostNanoUSD: 3_000_000}}}
	for i := range items {
		n := int(first) + i
		agent := n / 100 * 7919 % f.agents
		model := (agent*7 + n*7919%f.eachAgent) % f.models
		items[i] = timescale.Item{Offset: first + int64(i), Event: schema.Event{
			ID: schema.NewID(now), AccountID: f.account, Agent: fmt.Sprintf("agent-%03d", agent), Provider: "openai",
			Model: fmt.Sprintf("model-%02d", model), SessionID: fmt.Sprintf("ses_%d-%08d", now.Unix()/60, n/100), Time: now, ReceivedAt: now,
			InputTokens: int64(n * 7919 % 5000), OutputTokens: int64(n * 104729 % 800), LatencyMS: int64(n % 4000),
			Cost: schema.NanoUSD(n * 32452843 % 10_000_000), Source: schema.CostCalculated, PriceID: "openai/gpt-4o@2024-10-02",
			Breakdown: wire.AppendBreakdown(nil, &breakdown),
			Status:    schema.StatusOK, Metadata: []byte(`{"env":"prod","team":"search","attempt":1}`),
		}}
	}
	return items
}
