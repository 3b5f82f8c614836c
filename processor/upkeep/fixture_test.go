package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// connect opens a connection of the test's own.
func connect(t *testing.T, db *schematest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the only value of the only row.
func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// column returns the values of the only column.
func column[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, _ := conn.Query(t.Context(), sql, args...)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

func up(t *testing.T, conn *pgx.Conn, opt migrations.Options) {
	t.Helper()
	opt.Log = slog.New(slog.DiscardHandler)
	if err := migrations.Up(t.Context(), conn, opt); err != nil {
		t.Fatal(err)
	}
}

// refresh brings the rollups up to date, as a processor does every few seconds.
func refresh(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if done, err := RefreshRollups(t.Context(), conn, time.Now()); err != nil || !done {
		t.Fatalf("RefreshRollups: done %t, %v", done, err)
	}
}

// testEvent is what these tests care about in an event; the rest is made up from it.
type testEvent struct {
	At      time.Time
	Account int
	Agent   string
	Latency int64
	Cost    int64
}

func event(at time.Time) testEvent {
	return testEvent{At: at, Account: 1, Agent: "a", Cost: 1_000_003, Latency: schema.NoLatency}
}

// randomEvents returns n events between from and to, which fall into few groups.
func randomEvents(n int, from, to time.Time) []testEvent {
	events := make([]testEvent, n)
	for i := range events {
		events[i] = testEvent{
			At:      from.Add(rand.N(to.Sub(from))),
			Account: rand.IntN(3),
			Agent:   []string{"billing", "support", "rösti 🥔"}[rand.IntN(3)],
			Cost:    rand.Int64N(1_000_000_000),
			Latency: schema.NoLatency,
		}
		if rand.IntN(10) > 0 {
			events[i].Latency = rand.Int64N(1 << rand.IntN(26))
		}
	}
	return events
}

// writer stores events as a processor does that has a partition of its own.
type writer struct {
	sink      *timescale.Sink
	partition int32
	next      int64
}

const testTopic = "outlay.test"

func newWriter(ctx context.Context, pool *pgxpool.Pool, partition int32) (*writer, error) {
	next, err := timescale.NewPositions(pool, testTopic).Next(ctx, []int32{partition})
	if err != nil {
		return nil, err
	}
	return &writer{timescale.New(pool, testTopic), partition, next[partition]}, nil
}

func (w *writer) store(ctx context.Context, events []testEvent) error {
	items := make([]timescale.Item, len(events))
	for i, e := range events {
		items[i] = timescale.Item{Partition: w.partition, Offset: w.next + int64(i), Event: e.whole()}
	}
	span := timescale.Span{Partition: w.partition, First: w.next, Next: w.next + int64(len(items))}
	_, err := w.sink.Save(ctx, []timescale.Span{span}, items)
	if err == nil {
		w.next = span.Next
	}
	return err
}

// whole makes up what is not of interest.
func (e testEvent) whole() schema.Event {
	now := time.Now().UTC()
	status, source, provider := schema.StatusOK, schema.CostCalculated, ""
	if e.Cost%7 == 0 {
		status = schema.StatusError
	}
	if e.Cost%11 == 0 {
		source = schema.CostUnpriced
	}
	if e.Cost%2 == 0 {
		provider = "openai"
	}
	return schema.Event{
		ID: schema.NewID(now), AccountID: schema.ID{15: byte(e.Account)}, Agent: e.Agent, Provider: provider,
		Model: fmt.Sprintf("model-%d", e.Cost%3), SessionID: fmt.Sprintf("ses_%d", e.Cost), Time: e.At.UTC().Truncate(time.Microsecond),
		ReceivedAt: now, Status: status, Source: source, Cost: schema.NanoUSD(e.Cost), LatencyMS: e.Latency,
		InputTokens: e.Cost % 1000, OutputTokens: e.Cost % 100, CacheReadTokens: e.Cost % 10, CacheWriteTokens: e.Cost % 5,
		CacheWrite1hTokens: e.Cost % 3, ReasoningTokens: e.Cost % 4,
	}
}

// insert stores events with their sums.
func insert(t *testing.T, db *schematest.DB, events ...testEvent) {
	t.Helper()
	w, err := newWriter(t.Context(), db.Pool, 0)
	if err == nil {
		err = w.store(t.Context(), events)
	}
	if err != nil {
		t.Fatal(err)
	}
}
