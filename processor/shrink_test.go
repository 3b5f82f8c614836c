package processor

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema/schematest"
)

// failOn makes the database fail to store events for which a condition holds: on new,
// the row, and n, its number in the transaction.
func (f *fixture) failOn(t *testing.T, condition, state string) {
	t.Helper()
	for _, sql := range []string{
		`CREATE OR REPLACE FUNCTION fail_on() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE
			n integer := coalesce(nullif(current_setting('test.rows', true), ''), '0')::integer + 1;
		BEGIN
			PERFORM set_config('test.rows', n::text, true);
			IF ` + condition + ` THEN
				RAISE EXCEPTION 'the test fails this' USING ERRCODE = '` + state + `';
			END IF;
			RETURN new;
		END
		$$`,
		`CREATE OR REPLACE TRIGGER fail_on BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION fail_on()`,
	} {
		if _, err := f.db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// unprocessable is how often the database could not process a batch.
func (r *running) unprocessable() float64 {
	return testutil.ToFloat64(r.metrics.saveErrors.WithLabelValues(string(timescale.Unprocessable)))
}

// A batch that is too large for the database's memory is stored in parts, and nothing
// of it is put aside.
func TestRunStoresInPartsWhatIsTooMuchAtOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		f.failOn(t, `n > 50`, "53200")
		f.produce(t, f.events(0, 400)...)
		r := f.start(t)
		f.await(t, plain(400))
		if r.unprocessable() == 0 {
			t.Error("every batch was small enough")
		}
	})
}

// Records that the database cannot process while it stores others are put aside, also
// several in a row, but only once there are others.
func TestRunPutsAsideWhatTheDatabaseNeverProcesses(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		f.failOn(t, `new.agent = 'poison'`, "XX000")
		events := f.events(0, 60)
		for i := range events {
			events[i].SessionID = "ses_one" // of one partition
		}
		for _, i := range []int{0, 1, 30} {
			events[i].Agent = "poison"
		}
		f.produce(t, events[0])
		r := f.start(t)
		for deadline := time.Now().Add(patience); r.unprocessable() < maxAlone+2; time.Sleep(f.poll) {
			if time.Now().After(deadline) {
				t.Fatal("the record is not tried")
			}
		}
		if got := f.totals(t); got.Dead != 0 || got.Positions != 0 {
			t.Fatalf("with nothing to compare with: %+v", got)
		}
		f.produce(t, events[1:]...)
		var dead, stored, positions int
		const counts = `SELECT (SELECT count(*) FROM dead_letters WHERE topic = $1 AND reason = 'refused_by_database' AND sqlstate = 'XX000'),
			(SELECT count(*) FROM events WHERE account_id = $2), (SELECT sum(next_offset) FROM kafka_offsets WHERE topic = $1)`
		for deadline := time.Now().Add(2 * patience); positions < 60; time.Sleep(f.poll) {
			if err := db.Pool.QueryRow(t.Context(), counts, f.topic, f.account).Scan(&dead, &stored, &positions); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d put aside, %d stored, %d passed", dead, stored, positions)
			}
		}
		if dead != 3 || stored != 57 {
			t.Errorf("%d put aside, %d stored, want 3 and 57", dead, stored)
		}
		if got := len(f.deadLetters(t, 3)); got != 3 {
			t.Errorf("%d dead letters", got)
		}
	})
}

// While the database processes nothing, nothing is put aside, however long it takes.
func TestRunPutsNothingAsideWhileTheDatabaseFails(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	f := fakeFixture(t, db)
	f.failOn(t, `true`, "XX000")
	f.produce(t, f.events(0, 30)...)
	r := f.start(t)
	for deadline := time.Now().Add(2 * patience); r.unprocessable() < 2*maxAlone+6; time.Sleep(f.poll) {
		if time.Now().After(deadline) {
			t.Fatal("the records are not tried")
		}
	}
	if _, err := db.Pool.Exec(t.Context(), `DROP TRIGGER fail_on ON events`); err != nil {
		t.Fatal(err)
	}
	f.await(t, plain(30))
}
