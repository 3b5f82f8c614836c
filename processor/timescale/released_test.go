package timescale_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Leases of the tests: dropped was given up at offset 3 and is gone, ended has its barrier there and is not gone, open is spent, and unknown is
// not in the database.
var dropped, ended, open, unknown = schema.ID{15: 1}, schema.ID{15: 2}, schema.ID{15: 3}, schema.ID{15: 4}

func newLeases(t *testing.T, db *schematest.DB) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone) VALUES ($1, 'a', 1000, 'total', 'UTC')`,
		`INSERT INTO budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd, barrier)
			SELECT format('00000000-0000-0000-0000-00000000000%s', n)::uuid, $1, 'a', '2035-01-01', 0, $1, 100, CASE WHEN n < 3 THEN '{"0": 3}'::jsonb END
			FROM generate_series(1, 3) AS n`,
		`SELECT drop_leases(ARRAY['00000000-0000-0000-0000-000000000001'::uuid]), $1::uuid`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql, account); err != nil {
			t.Fatal(err)
		}
	}
}

// An event that was written long after it arrived, and after its lease was given up, is refused as by the cap. It takes up no idempotency
// key, and gives back what it took of another lease.
func TestSaveRefusesWhatIsWrittenAfterItsLeaseWasGivenUp(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		newLeases(t, db)
		batch := items(0, 12)
		for i, is := range []struct {
			leases []schema.ID
			late   bool
			cost   schema.NanoUSD
			key    string
		}{
			0:  {[]schema.ID{dropped}, true, 1, ""}, // before the barrier
			1:  {nil, false, 1, "known"},
			2:  {nil, true, 1, ""},
			3:  {[]schema.ID{dropped}, true, 10, ""},       // refused
			4:  {[]schema.ID{dropped}, false, 1, ""},       // its client may have a confirmation
			5:  {[]schema.ID{dropped}, true, 0, ""},        // costs nothing
			6:  {[]schema.ID{open, dropped}, true, 20, ""}, // refused
			7:  {[]schema.ID{ended}, true, 30, ""},         // refused
			8:  {[]schema.ID{open}, true, 2, ""},
			9:  {[]schema.ID{unknown}, true, 1, ""},
			10: {[]schema.ID{dropped}, true, 1, "known"}, // a duplicate
			11: {[]schema.ID{dropped}, true, 40, "new"},  // refused
		} {
			e := &batch[i].Event
			batch[i].Late, e.Leases, e.Cost, e.IdempotencyKey = is.late, is.leases, is.cost, is.key
			if is.key != "" {
				e.ID = schema.KeyedEventID(account, is.key)
			}
		}
		got, err := sink.Save(t.Context(), span(0, 12), batch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timescale.Result{Stored: 7, Duplicates: 1, RefusedLate: 4}, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		again := items(12, 1) // The client sends it again, and it is charged to a lease that holds.
		again[0].Event.ID, again[0].Event.IdempotencyKey, again[0].Event.Leases = schema.KeyedEventID(account, "new"), "new", []schema.ID{open}
		if got, err := sink.Save(t.Context(), span(12, 1), again); err != nil || got.Stored != 1 {
			t.Errorf("a refused event that is sent again: %+v, %v, want that it is stored", got, err)
		}
		for name, want := range map[string]string{
			`SELECT concat_ws(' ', used_nano_usd, stored_nano_usd) FROM budget_leases WHERE lease_id = '00000000-0000-0000-0000-000000000003'`: "23 3",
			`SELECT concat_ws(' ', used_nano_usd, stored_nano_usd) FROM budget_leases WHERE lease_id = '00000000-0000-0000-0000-000000000002'`: "30 0",
			`SELECT concat_ws(' ', sum(events), sum(cost_nano_usd)) FROM refused_events`:                                                       "4 100",
			`SELECT concat_ws(' ', sum(accepted), sum(stored), sum(duplicates), sum(refused_late), sum(difference)) FROM intake`:               "13 8 1 4 0",
			`SELECT concat_ws(' ', count(*), sum(cost_nano_usd)) FROM events`:                                                                  "8 8",
			`SELECT sum(cost_nano_usd)::text FROM spend WHERE agent = 'a'`:                                                                     "8",
		} {
			var got string
			if err := db.Pool.QueryRow(t.Context(), name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %s, %v, want %s", name, got, err, want)
			}
		}
	})
}

// A lease that is given up between the decision and the statement is noticed: the decision is made again.
func TestSaveNoticesALeaseThatIsGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		newLeases(t, db)
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		for _, sql := range []string{
			`UPDATE budget_leases SET barrier = '{"0": 0}' WHERE lease_id = '00000000-0000-0000-0000-000000000003'`,
			`SELECT drop_leases(ARRAY['00000000-0000-0000-0000-000000000003'::uuid])`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		batch := items(0, 1)
		batch[0].Late, batch[0].Event.Leases = true, []schema.ID{open}
		saved := make(chan timescale.Result, 1)
		go func() {
			result, err := sink.Save(t.Context(), span(0, 1), batch)
			if err != nil {
				t.Error(err)
			}
			saved <- result
		}()
		const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
		for n := 0; n == 0; time.Sleep(10 * time.Millisecond) {
			if err := db.Pool.QueryRow(t.Context(), waiting).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timescale.Result{RefusedLate: 1}, <-saved); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	})
}
