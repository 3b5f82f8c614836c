package processor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
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
