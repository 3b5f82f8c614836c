package processor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// intake is what the table states of all accounts and hours. Found are the events, counted one by
// one where the table has them.
type intake struct {
	Accepted, Stored, Duplicates, Dead, Different, Found, Elsewhere int64
}

const selectIntake = `
WITH found AS (
	SELECT i.account_id, i.hour, count(e.event_id) AS events
	FROM intake i LEFT JOIN events e ON e.account_id = i.account_id AND e.ts BETWEEN i.first_ts AND i.last_ts
		AND e.received_at >= i.hour AND e.received_at < i.hour + interval '1 hour'
	GROUP BY 1, 2
)
SELECT coalesce(sum(accepted), 0)::bigint, coalesce(sum(stored), 0)::bigint, coalesce(sum(duplicates), 0)::bigint,
	coalesce(sum(dead_letters), 0)::bigint, count(*) FILTER (WHERE difference <> 0), coalesce(sum(f.events), 0)::bigint,
	count(*) FILTER (WHERE f.events <> i.stored)
FROM intake i JOIN found f USING (account_id, hour)`

// checkIntake compares what was counted with the offsets that were passed and the rows that are
// there.
func (f *fixture) checkIntake(t testing.TB, n totals) {
	t.Helper()
	var got intake
	err := f.db.Pool.QueryRow(t.Context(), selectIntake).
		Scan(&got.Accepted, &got.Stored, &got.Duplicates, &got.Dead, &got.Different, &got.Found, &got.Elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	want := intake{
		Accepted: n.Positions, Stored: n.Events, Duplicates: n.Positions - n.Events - n.Dead, Dead: n.Dead, Found: n.Events,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("intake differs (-want +got):\n%s", diff)
	}
}

// A record that cannot be read is counted for the account that its key names, in the hour in
// which Kafka took it; where the key names none, for nobody.
func TestRunCountsWhatCannotBeReadForItsAccount(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		e := f.event(1)
		version := []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte("9")}}
		f.produceRecords(t,
			&kgo.Record{Topic: f.topic, Key: wire.AppendKey(nil, &e), Value: wire.Append(nil, &e), Headers: version},
			&kgo.Record{Topic: f.topic, Key: []byte("k"), Value: []byte("not an event")},
		)
		f.start(t)
		f.await(t, totals{Positions: 2, Dead: 2})
		for account, want := range map[schema.ID]int64{f.account: 1, {}: 1} {
			var letters, counted int64
			err := f.db.Pool.QueryRow(t.Context(), `
				SELECT (SELECT count(*) FROM dead_letters WHERE account_id IS NOT DISTINCT FROM nullif($1, '00000000-0000-0000-0000-000000000000'::uuid)
						AND received_at > now() - interval '1 hour'),
					(SELECT sum(dead_letters) FROM intake WHERE account_id = $1 AND hour > now() - interval '2 hours')`, account).
				Scan(&letters, &counted)
			if err != nil || letters != want || counted != want {
				t.Errorf("account %v: %d dead letters and %d counted, %v, want %d", account, letters, counted, err, want)
			}
		}
	})
}

// What was taken and is nowhere shows in a metric.
func TestDifferenceIsMeasured(t *testing.T) {
	t.Parallel()
	f := fakeFixture(t, schematest.Database(t))
	f.produce(t, f.events(0, 3)...)
	f.start(t)
	f.await(t, plain(3))
	if _, err := f.db.Pool.Exec(t.Context(), `UPDATE intake SET stored = stored - 2`); err != nil {
		t.Fatal(err)
	}
	f.start(t).awaitMetric(t, "outlay_processor_intake_difference_records", 2)
}
