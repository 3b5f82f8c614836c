package alerting

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
)

const (
	costAgents = 20
	costModels = 3
)

// receive stores events as the processor does: of some agents and models, all in one minute.
func (w *world) receive(at time.Time, n int) {
	w.t.Helper()
	if _, err := timescale.NewPositions(w.db.Pool, "topic").Next(w.t.Context(), []int32{0}); err != nil {
		w.t.Fatal(err)
	}
	sink := timescale.New(w.db.Pool, "topic")
	const batch = 10_000
	for first := 0; first < n; first += batch {
		items := make([]timescale.Item, min(batch, n-first))
		for i := range items {
			k := first + i
			items[i] = timescale.Item{Offset: int64(k), Event: schema.Event{
				ID: schema.NewID(at), AccountID: w.account, Agent: fmt.Sprintf("agent-%d", k%costAgents), Provider: "openai",
				Model: fmt.Sprintf("model-%d", k%costModels), SessionID: fmt.Sprintf("ses_%d", k/10), Time: at, ReceivedAt: at,
				InputTokens: 10, OutputTokens: 5, LatencyMS: int64(k % 1000), Cost: 1, Source: schema.CostCalculated, Status: schema.StatusOK,
			}}
		}
		spans := []timescale.Span{{Partition: 0, First: int64(first), Next: int64(first + len(items))}}
		if _, err := sink.Save(w.t.Context(), spans, items); err != nil {
			w.t.Fatal(err)
		}
	}
}

// rulesOfEachKind makes rules over every window, on sums, percentiles and anomalies.
func (w *world) rulesOfEachKind() {
	w.t.Helper()
	sensitivity := 3.0
	for _, window := range []alert.Window{alert.FiveMinutes, alert.FifteenMinutes, alert.Hour, alert.Day} {
		for _, metric := range []alert.Metric{alert.Cost, alert.LatencyP95} {
			w.rule(func(r *alert.Rule) { r.Window, r.Metric = window, metric })
			w.rule(func(r *alert.Rule) {
				r.Window, r.Metric, r.Condition, r.Threshold, r.Sensitivity = window, metric, alert.Anomaly, nil, &sensitivity
			})
		}
	}
}

// What a check reads is as many rows for many events as for few, and none of them is an event.
func TestChecksDoNotReadEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		for _, events := range []int{600, 30_000} {
			w := newWorld(t, db)
			w.exec(`TRUNCATE arrivals, kafka_offsets, alert_rules CASCADE`)
			w.receive(w.now.Add(-30*time.Second), events)
			w.rulesOfEachKind()
			tx, err := db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// Who reads an event now waits until the test fails.
			if _, err := tx.Exec(t.Context(), `LOCK TABLE events IN ACCESS EXCLUSIVE MODE`); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			if err := w.evaluator.leader.renew(ctx); err != nil {
				t.Fatal(err)
			}
			if err := w.evaluator.Check(ctx); err != nil {
				t.Errorf("a check while nobody can read events: %v", err)
			}
			cancel()
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			var rows, seen int
			err = db.Pool.QueryRow(t.Context(), `SELECT count(*), sum(events)::bigint FROM arrivals`).Scan(&rows, &seen)
			if err != nil || seen != events || rows != costAgents*costModels {
				t.Errorf("%d events in %d rows, want %d in %d: %v", seen, rows, events, costAgents*costModels, err)
			}
			if err := w.evaluator.leader.resign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkCheck checks rules of each kind after many events and after few: the time is the same.
func BenchmarkCheck(b *testing.B) {
	for _, events := range []int{1_000, 100_000, 500_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) { benchCheck(b, events) })
	}
}

func benchCheck(b *testing.B, events int) {
	w := newWorld(b, schematest.Database(b))
	w.receive(w.now.Add(-30*time.Second), events)
	w.rulesOfEachKind()
	w.check()
	for b.Loop() {
		w.check()
	}
}
