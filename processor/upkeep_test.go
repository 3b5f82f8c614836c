package processor

import (
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/schematest"
)

// A moment after the events are stored their sessions are folded, each once, by however many processors, and the rollups refreshed.
func TestRunKeepsUp(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		f.produce(t, f.events(0, 3000)...)
		began := time.Now()
		one, two := f.start(t), f.start(t)
		f.await(t, plain(3000))
		const sql = `SELECT (SELECT count(*) FROM session_parts), (SELECT count(*) FROM sessions), (SELECT coalesce(sum(events), 0) FROM sessions)::bigint,
			(SELECT refreshed_at > $1 FROM usage_progress)`
		var parts, sessions, events int
		var refreshed bool
		for deadline := time.Now().Add(patience); ; time.Sleep(f.poll) {
			if err := db.Pool.QueryRow(t.Context(), sql, began).Scan(&parts, &sessions, &events, &refreshed); err != nil {
				t.Fatal(err)
			}
			// What is folded is counted a moment later, and not by a processor that stops in it.
			const counter = "outlay_processor_session_parts_folded_total"
			folded := one.metric(t, counter) + two.metric(t, counter)
			if parts == 0 && folded >= 50 && refreshed {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d parts were not folded, %v were, of 50 at least; rollups refreshed: %t", parts, folded, refreshed)
			}
		}
		if sessions != 50 || events != 3000 {
			t.Errorf("%d sessions of %d events, want 50 of 3000", sessions, events)
		}
	})
}
