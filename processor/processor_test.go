package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// Every event is stored once, with its spend, and the position moves with it.
func TestRunStoresEachEventOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		f.produce(t, f.events(0, 3000)...)
		p := f.start(t)
		f.await(t, plain(3000))
		f.produce(t, f.events(3000, 3010)...)
		f.await(t, plain(3010))
		p.stop()
		if n := testutil.ToFloat64(p.metrics.stored); n != 3010 {
			t.Errorf("stored counter = %v, want 3010", n)
		}
	})
}

// A few events wait for more; a batch that is full does not, and neither does the end.
func TestRunWaitsForABatchToFill(t *testing.T) {
	t.Parallel()
	f := fakeFixture(t, schematest.Database(t))
	f.topic = schematest.Topic(t, f.addrs, 1)
	f.group = "group-" + f.topic
	p := f.start(t, func(c *Config) { c.BatchRecords, c.BatchWait = 100, time.Hour })
	f.produce(t, f.events(0, 1)...)
	for deadline := time.Now().Add(patience); testutil.ToFloat64(p.metrics.lag.WithLabelValues("0")) != 1; time.Sleep(f.poll) {
		if got := f.totals(t); got.Events != 0 {
			t.Fatalf("an event was stored that should wait for others: %+v", got)
		}
		if time.Now().After(deadline) {
			t.Fatal("no lag was measured")
		}
	}
	events := f.events(1, 100)
	events[98].Metadata = []byte(`{"k":"` + strings.Repeat("x", 100*smallRecord) + `"}`)
	f.produce(t, events...)
	f.await(t, plain(100))
	f.produce(t, f.events(100, 101)...)
	p.stop()
	f.start(t)
	f.await(t, plain(101))
}

// All columns of an event arrive as they were sent.
func TestRunStoresAllColumns(t *testing.T) {
	t.Parallel()
	f := fakeFixture(t, schematest.Database(t))
	e := f.event(1)
	e.SessionImplicit, e.Status, e.ErrorType = true, schema.StatusError, "timeout"
	e.Step, e.Parent, e.UserID, e.Tags = "plan", schema.ID{15: 9}, "u", []string{"a b", "ü,{}\"'"}
	e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens = 2, 3, 4, 5
	q := price.Quote{Rule: "equals m", Parts: price.Parts{price.Input: {Tokens: 1, RatePicoUSD: 1000, CostNanoUSD: 1}}}
	e.PriceID, e.Breakdown, e.Metadata = "p/m@1", wire.AppendBreakdown(nil, &q), []byte(`{"k": 1.50}`)
	f.produce(t, e)
	f.start(t)
	f.await(t, totals{Events: 1, Distinct: 1, Cost: 1, SpendEvents: 1, SpendCost: 1, Positions: 1})
	var got string
	err := f.db.Pool.QueryRow(t.Context(), `
		SELECT concat_ws('|', event_id, agent, provider, model, session_id, session_implicit, status, error_type, step, user_id,
			parent_event_id, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
			reasoning_tokens, latency_ms, cost_nano_usd, cost_source, price_id, cost_breakdown, array_to_json(tags), metadata)
		FROM events`).Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
	want := uuid(e.ID) + `|agent-1|p|m|ses_1|t|error|timeout|plan|u|` + uuid(e.Parent) +
		`|1|1|2|3|4|5|1|1|calculated|p/m@1|[{"kind":"input","tokens":1,"rate_usd_per_mtok":0.001,"cost_usd":0.000000001,"tier":"base","rule":"equals m"}]|["a b","ü,{}\"'"]|{"k": 1.50}`
	if got != want {
		t.Errorf("row = %s\nwant  %s", got, want)
	}
}

// An idempotency key is stored once: in one batch, in different batches, and
// after a restart. Another account may use the same key.
func TestRunStoresAKeyOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		keyed := func(i int) schema.Event {
			e := f.event(i)
			e.IdempotencyKey = fmt.Sprintf("key-%d", i)
			e.ID = schema.KeyedEventID(f.account, e.IdempotencyKey)
			return e
		}
		f.produce(t, keyed(1), keyed(2), keyed(1))
		p := f.start(t)
		f.await(t, totals{Events: 2, Distinct: 2, Cost: 3, SpendEvents: 2, SpendCost: 3, Positions: 3})
		f.produce(t, keyed(2), keyed(3))
		f.await(t, totals{Events: 3, Distinct: 3, Cost: 6, SpendEvents: 3, SpendCost: 6, Positions: 5})
		p.stop()
		if n := testutil.ToFloat64(p.metrics.duplicates); n != 2 {
			t.Errorf("duplicates counter = %v, want 2", n)
		}
		f.start(t)
		f.produce(t, keyed(3), keyed(4))
		f.await(t, totals{Events: 4, Distinct: 4, Cost: 10, SpendEvents: 4, SpendCost: 10, Positions: 7})
	})
}

// What is no event and what the database refuses goes to the dead letters with
// its coordinates, and the rest of the batch is stored.
func TestRunPutsAsideWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		good := f.events(0, 20)
		refused := f.event(100)
		refused.Step = "a\x00b" // valid UTF-8, which PostgreSQL cannot store
		other := f.event(101)
		version := []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}}
		f.produce(t, good[:10]...)
		f.produceRecords(t,
			&kgo.Record{Topic: f.topic, Key: []byte("k"), Value: []byte("not an event"), Headers: version},
			&kgo.Record{Topic: f.topic, Key: []byte("k"), Value: wire.Append(nil, &refused), Headers: version},
			&kgo.Record{Topic: f.topic, Key: []byte("k"), Value: wire.Append(nil, &other), Headers: []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte("9")}}},
		)
		f.produce(t, good[10:]...)
		p := f.start(t)
		want := plain(20)
		want.Positions, want.Dead = 23, 3
		f.await(t, want)

		got := map[string]string{}
		for _, r := range f.deadLetters(t, 3) {
			h := map[string]string{}
			for _, header := range r.Headers {
				h[header.Key] = string(header.Value)
			}
			if h[wire.TopicHeader] != f.topic || h[wire.PartitionHeader] == "" || h[wire.OffsetHeader] == "" {
				t.Errorf("dead letter without coordinates: %v", h)
			}
			got[h[wire.ReasonHeader]] = h[wire.SQLStateHeader]
		}
		wantReasons := map[string]string{"not_an_event": "", "refused_by_database": "22021", "unsupported_version": ""}
		if diff := cmp.Diff(wantReasons, got); diff != "" {
			t.Errorf("reasons and states differ (-want +got):\n%s", diff)
		}
		for _, reason := range []timescale.Reason{timescale.ReasonNotEvent, timescale.ReasonRefused, timescale.ReasonVersion} {
			if n := testutil.ToFloat64(p.metrics.deadLetters.WithLabelValues(string(reason))); n != 1 {
				t.Errorf("dead letters counter for %s = %v, want 1", reason, n)
			}
		}
	})
}

// Events that Kafka has deleted before they were stored stop their partition,
// loudly; the other partitions go on.
func TestRunStopsAtAHole(t *testing.T) {
	t.Parallel()
	f := fakeFixture(t, schematest.Database(t))
	version := []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}}
	client, err := kgo.NewClient(kgo.SeedBrokers(f.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, e := range f.events(0, 10) {
		r := &kgo.Record{Topic: f.topic, Partition: int32(i % 2), Value: wire.Append(nil, &e), Headers: version}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = kadm.NewClient(client).DeleteRecords(t.Context(), kadm.Offsets{f.topic: {0: {Topic: f.topic, Partition: 0, At: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	p := f.start(t)
	f.await(t, totals{Events: 5, Distinct: 5, Cost: 1 + 3 + 5 + 7 + 9, SpendEvents: 5, SpendCost: 25, Positions: 5})
	deadline := time.Now().Add(patience)
	for p.owned.stopped() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the hole was not noticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	// It is asked for once, not in a loop.
	errors := testutil.ToFloat64(p.metrics.fetchErrors)
	time.Sleep(time.Second)
	if more := testutil.ToFloat64(p.metrics.fetchErrors) - errors; more > 3 {
		t.Errorf("%v more errors in a second", more)
	}
	if n := testutil.ToFloat64(p.metrics.holes); n != 1 {
		t.Errorf("holes gauge = %v, want 1", n)
	}
	if err := p.Ready(t.Context()); err == nil {
		t.Error("ready in spite of a hole")
	}
}
