package replay_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// fixture is a topic on a real Kafka, a database, and a Checker that asks them.
type fixture struct {
	*replay.Checker
	t        *testing.T
	db       *schematest.DB
	pool     *pgxpool.Pool // the Checker's
	kafka    *kgo.Client
	topic    string
	registry *prometheus.Registry
	// questions counts what the Checker asks the database.
	questions atomic.Int64
}

func newFixture(t *testing.T, db *schematest.DB) *fixture {
	t.Helper()
	addrs := schematest.Kafka(t)
	f := &fixture{t: t, db: db, topic: schematest.Topic(t, addrs, 2), registry: prometheus.NewRegistry()}
	var err error
	if f.kafka, err = kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.kafka.Close)
	cfg := db.Pool.Config()
	cfg.ConnConfig.Tracer = tracer{&f.questions}
	if f.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.pool.Close)
	f.Checker = replay.New(replay.Deps{Pool: f.pool, Kafka: f.kafka, Topic: f.topic, Metrics: f.registry, Log: slog.New(slog.DiscardHandler)})
	return f
}

// tracer counts batches.
type tracer struct{ n *atomic.Int64 }

func (c tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// write puts a record into a partition.
func (f *fixture) write(partition int32) {
	f.t.Helper()
	r := &kgo.Record{Topic: f.topic, Partition: partition, Value: []byte("x")}
	if err := f.kafka.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// store is the processor: it moves a partition on and notes keys.
func (f *fixture) store(partition int32, next int64, keys ...replay.Key) {
	f.t.Helper()
	const move = `INSERT INTO kafka_offsets (topic, partition, next_offset) VALUES ($1, $2, $3)
		ON CONFLICT (topic, partition) DO UPDATE SET next_offset = excluded.next_offset`
	if _, err := f.db.Pool.Exec(f.t.Context(), move, f.topic, partition, next); err != nil {
		f.t.Fatal(err)
	}
	for _, k := range keys {
		if _, err := f.db.Pool.Exec(f.t.Context(), `INSERT INTO event_keys (account_id, event_id) VALUES ($1, $2)`, k.Account, k.Event); err != nil {
			f.t.Fatal(err)
		}
	}
}

func newKey() replay.Key {
	return replay.Key{Account: schema.NewID(time.Now()), Event: schema.NewID(time.Now())}
}

func (f *fixture) answers(want replay.Answer, keys ...replay.Key) {
	f.t.Helper()
	start := time.Now()
	got := f.Check(f.t.Context(), keys)
	if diff := cmp.Diff(slices.Repeat([]replay.Answer{want}, len(keys)), got); diff != "" {
		f.t.Errorf("(-want +got):\n%s", diff)
	}
	f.t.Logf("%s after %v", want, time.Since(start))
}

// A key is new once everything is stored that Kafka held when it was asked about, in
// every partition, and recorded as soon as it is stored. Until then nobody knows.
func TestCheckWaitsForTheProcessor(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := newFixture(t, db)
		stored, other := newKey(), newKey()
		f.answers(replay.Unrecorded, other) // Nothing was ever written.
		f.write(0)
		f.write(1)
		f.store(0, 1)
		f.answers(replay.Unknown, stored, other)
		var wg sync.WaitGroup
		wg.Go(func() { f.answers(replay.Recorded, stored) })
		f.store(0, 1, stored)
		wg.Wait()
		f.answers(replay.Unknown, other)
		f.store(1, 1)
		f.answers(replay.Unrecorded, other)
		f.answers(replay.Recorded, stored)
		f.answers(replay.Unrecorded) // No key, no question.
		want := map[replay.Answer]float64{replay.Recorded: 2, replay.Unrecorded: 2, replay.Unknown: 3}
		for answer, n := range want {
			if got := f.counted(answer); got != n {
				t.Errorf("%s was counted %v times, want %v", answer, got, n)
			}
		}
	})
}

// counted is the metric of an answer.
func (f *fixture) counted(answer replay.Answer) float64 {
	f.t.Helper()
	metrics, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range metrics[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == string(answer) {
			return m.GetCounter().GetValue()
		}
	}
	return 0
}

// A flood of refused events is answered by few questions, also while the processor
// is stopped, and none waits much longer than a second.
func TestFloodIsAnsweredTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t, schematest.Database(t))
	f.write(0)
	start := time.Now()
	var wg sync.WaitGroup
	var unknown atomic.Int64
	for range 2000 {
		wg.Go(func() {
			if f.Check(t.Context(), []replay.Key{newKey()})[0] == replay.Unknown {
				unknown.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	t.Logf("%d questions for 2000 events in %v", f.questions.Load(), took)
	if n := f.questions.Load(); unknown.Load() != 2000 || n > int64(took/(20*time.Millisecond)) {
		t.Errorf("%d questions for %d events in %v", n, unknown.Load(), took)
	}
	// More than fit into one round are not waited for.
	many := make([]replay.Key, 10_001)
	for i := range many {
		many[i] = newKey()
	}
	f.answers(replay.Unknown, many...)
}

// Without Kafka, or without the database, nobody knows.
func TestNobodyKnowsWithoutKafkaOrDatabase(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	f := newFixture(t, db)
	f.kafka.Close()
	f.answers(replay.Unknown, newKey())
	f = newFixture(t, db)
	f.pool.Close()
	f.answers(replay.Unknown, newKey())
}
