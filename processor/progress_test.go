package processor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/schematest"
)

// A topic that was stored from before, and all of, holds nothing back; one with events that are not stored does, and one that Kafka
// does not know.
func TestTopicThatWasLeftHoldsNothingBack(t *testing.T) {
	t.Parallel()
	f := fakeFixture(t, schematest.Database(t))
	drained, undrained := schematest.Topic(t, f.addrs, 1), schematest.Topic(t, f.addrs, 1)
	f.produceRecords(t, &kgo.Record{Topic: drained, Value: []byte("stored")}, &kgo.Record{Topic: undrained, Value: []byte("not stored")})
	began := time.Now()
	_, err := f.db.Pool.Exec(t.Context(), `INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until)
		VALUES ($1, 0, 1, '2020-01-01'), ($2, 0, 0, '2020-01-01'), ('gone', 0, 5, '2020-01-01')`, drained, undrained)
	if err != nil {
		t.Fatal(err)
	}
	f.start(t)
	moved := func() map[string]bool {
		rows, _ := f.db.Pool.Query(t.Context(), `SELECT topic, bool_and(complete_until >= $1) FROM kafka_offsets GROUP BY topic`, began)
		all := map[string]bool{}
		var topic string
		var is bool
		if _, err := pgx.ForEachRow(rows, []any{&topic, &is}, func() error { all[topic] = is; return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for deadline := time.Now().Add(patience); !moved()[drained] || !moved()[f.topic]; time.Sleep(f.poll) {
		if time.Now().After(deadline) {
			t.Fatalf("complete: %v", moved())
		}
	}
	if diff := cmp.Diff(map[string]bool{f.topic: true, drained: true, undrained: false, "gone": false}, moved()); diff != "" {
		t.Errorf("complete topics (-want +got):\n%s", diff)
	}
}

// An event in a partition that was added to the topic holds completeness back from the moment it is there, and is stored soon.
func TestAddedPartitionHoldsCompletenessBack(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string][]string{"embedded": schematest.FakeKafka(t).ListenAddrs(), "kafka": schematest.Kafka(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, schematest.Database(t), addrs)
			f.start(t)
			began := time.Now()
			for deadline := began.Add(patience); !f.completeUntil(t).After(began); time.Sleep(f.poll) {
				if time.Now().After(deadline) {
					t.Fatal("nothing is complete")
				}
			}
			if _, err := kadm.NewClient(f.client).CreatePartitions(t.Context(), 1, f.topic); err != nil {
				t.Fatal(err)
			}
			producer, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			e := f.event(1)
			var record *kgo.Record
			for deadline := time.Now().Add(patience); ; { // Until the broker knows the partition.
				record = f.record(&e)
				record.Partition = 3
				if err = producer.ProduceSync(t.Context(), record).FirstErr(); err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
				producer.ForceMetadataRefresh()
				time.Sleep(f.poll)
			}
			for deadline := time.Now().Add(patience); ; time.Sleep(f.poll) {
				var stored int
				until := f.completeUntil(t) // Before the events: it holds for what is stored by then.
				if err := f.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE event_id = $1`, e.ID).Scan(&stored); err != nil {
					t.Fatal(err)
				}
				if stored == 1 {
					break
				}
				if until.After(e.ReceivedAt) {
					t.Fatalf("complete until %v without an event of %v", until, e.ReceivedAt)
				}
				if time.Now().After(deadline) {
					t.Fatal("the event is not stored")
				}
			}
		})
	}
}

// completeUntil returns up to when everything of the topic is stored.
func (f *fixture) completeUntil(t *testing.T) (until time.Time) {
	t.Helper()
	const query = `SELECT CASE WHEN min(complete_until) > '-infinity' THEN min(complete_until) ELSE '1970-01-01' END
		FROM kafka_offsets WHERE topic = $1 HAVING count(*) > 0 UNION ALL SELECT '1970-01-01' LIMIT 1`
	if err := f.db.Pool.QueryRow(t.Context(), query, f.topic).Scan(&until); err != nil {
		t.Fatal(err)
	}
	return until
}
