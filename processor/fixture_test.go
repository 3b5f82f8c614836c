package processor

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// fixture is a database and a topic with which processors are run.
type fixture struct {
	db     *schematest.DB
	addrs  []string
	topic  string
	dead   string
	group  string
	client *kgo.Client
	// account owns the events.
	account schema.ID
	// poll is how often await looks.
	poll time.Duration
}

func newFixture(t testing.TB, db *schematest.DB, addrs []string) *fixture {
	t.Helper()
	f := &fixture{
		db: db, addrs: addrs, account: schema.NewID(time.Now()), poll: 10 * time.Millisecond,
		topic: schematest.Topic(t, addrs, 3), dead: schematest.Topic(t, addrs, 1),
	}
	f.group = "group-" + f.topic
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.client = client
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, f.account); err != nil {
		t.Fatal(err)
	}
	return f
}

func fakeFixture(t *testing.T, db *schematest.DB) *fixture {
	t.Helper()
	return newFixture(t, db, schematest.FakeKafka(t).ListenAddrs())
}

// event returns event number i: plain, with a cost that states which one it is.
func (f *fixture) event(i int) schema.Event {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return schema.Event{
		ID: schema.NewID(now), AccountID: f.account, Agent: fmt.Sprintf("agent-%d", i%7), Model: "m", Provider: "p",
		SessionID: fmt.Sprintf("ses_%d", i%50), Time: now, ReceivedAt: now, InputTokens: int64(i), OutputTokens: 1,
		LatencyMS: int64(i % 3000), Cost: schema.NanoUSD(i), Source: schema.CostCalculated, Status: schema.StatusOK,
	}
}

// produce writes events to the topic and waits until they are there.
func (f *fixture) produce(t testing.TB, events ...schema.Event) {
	t.Helper()
	records := make([]*kgo.Record, len(events))
	for i := range events {
		records[i] = f.record(&events[i])
	}
	f.produceRecords(t, records...)
}

// record returns an event as ingest writes it.
func (f *fixture) record(e *schema.Event) *kgo.Record {
	return &kgo.Record{
		Topic: f.topic, Key: wire.AppendKey(nil, e), Value: wire.Append(nil, e),
		Headers: []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}},
	}
}

func (f *fixture) produceRecords(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	if err := f.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// events returns events from first up to, but not including, last.
func (f *fixture) events(first, last int) []schema.Event {
	events := make([]schema.Event, 0, last-first)
	for i := first; i < last; i++ {
		events = append(events, f.event(i))
	}
	return events
}

// running is a processor that runs until it is stopped.
type running struct {
	*Processor
	registry *prometheus.Registry
	stop     func()
}

// start runs a processor; the test's end stops it if the test has not.
func (f *fixture) start(t testing.TB, change ...func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Group = f.group
	cfg.BatchRecords = 500
	for _, c := range change {
		c(&cfg)
	}
	registry := prometheus.NewRegistry()
	p := New(cfg, Deps{
		Pool: schematest.As(t, f.db.Pool, "outlay_processor"), Owner: f.db.Pool, Kafka: []kgo.Opt{kgo.SeedBrokers(f.addrs...), kgo.MetadataMinAge(50 * time.Millisecond)},
		Topic: f.topic, DeadLetters: f.dead,
		Metrics: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	r := &running{p, registry, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}}
	t.Cleanup(r.stop)
	return r
}

// patience is how long is waited for what has to happen.
const patience = 3 * time.Minute

// totals are what the tables say about the events of the fixture.
type totals struct {
	Events, Distinct int64
	Cost             int64
	SpendEvents      int64
	SpendCost        int64
	Positions        int64
	Dead             int64
}

const selectTotals = `
SELECT
  (SELECT count(*) FROM events WHERE account_id = $1),
  (SELECT count(DISTINCT (kafka_partition, kafka_offset)) FROM events WHERE account_id = $1),
  (SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM events WHERE account_id = $1),
  (SELECT coalesce(sum(events), 0)::bigint FROM spend WHERE account_id = $1 AND agent <> ''),
  (SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM spend WHERE account_id = $1 AND agent = ''),
  (SELECT coalesce(sum(next_offset), 0)::bigint FROM kafka_offsets WHERE topic = $2),
  (SELECT count(*) FROM dead_letters WHERE topic = $2)`

func (f *fixture) totals(t testing.TB) (n totals) {
	t.Helper()
	// The snapshot comes before the plan: a plan made just before the first chunk was
	// would not read it, and a later snapshot sees all that was stored with it.
	err := pgx.BeginTxFunc(t.Context(), f.db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), selectTotals, f.account, f.topic).
			Scan(&n.Events, &n.Distinct, &n.Cost, &n.SpendEvents, &n.SpendCost, &n.Positions, &n.Dead)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// await waits until all records were processed, and compares what is stored.
func (f *fixture) await(t testing.TB, want totals) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := f.totals(t)
		if got.Positions >= want.Positions {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("stored differs (-want +got):\n%s", diff)
			}
			f.checkIntake(t, got)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not processed in time: %+v, want %+v", got, want)
		}
		time.Sleep(f.poll)
	}
}

// plain are the totals of n events numbered from 0, all stored.
func plain(n int64) totals {
	sum := n * (n - 1) / 2
	return totals{Events: n, Distinct: n, Cost: sum, SpendEvents: n, SpendCost: sum, Positions: n}
}

func uuid(id schema.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func (f *fixture) deadLetters(t *testing.T, n int) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.addrs...), kgo.ConsumeTopics(f.dead), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d dead letters", len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// metric returns the sum of the values of a metric.
func (r *running) metric(t testing.TB, name string) (sum float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// awaitMetric waits until a metric has a value.
func (r *running) awaitMetric(t testing.TB, name string, want float64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := r.metric(t, name)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s = %v, want %v", name, got, want)
		}
	}
}
