package processor

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A moment after the events are stored their sessions and live sums are folded, each
// once, by however many processors.
func TestRunFolds(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		f.produce(t, f.events(0, 3000)...)
		one, two := f.start(t), f.start(t)
		f.await(t, plain(3000))
		const sql = `SELECT (SELECT count(*) FROM session_parts) + (SELECT count(*) FROM usage_live_parts), (SELECT count(*) FROM sessions), (SELECT coalesce(sum(events), 0) FROM sessions)::bigint`
		counted := func() (sessions, live float64) {
			return testutil.ToFloat64(one.metrics.folded) + testutil.ToFloat64(two.metrics.folded),
				testutil.ToFloat64(one.metrics.foldedLive) + testutil.ToFloat64(two.metrics.foldedLive)
		}
		hasLive := db.Edition == migrations.Community
		var parts, sessions, events int
		for deadline := time.Now().Add(patience); ; time.Sleep(f.poll) {
			if err := db.Pool.QueryRow(t.Context(), sql).Scan(&parts, &sessions, &events); err != nil {
				t.Fatal(err)
			}
			// What is folded is counted a moment later, and not by a processor that stops in it.
			folded, live := counted()
			if parts == 0 && folded >= 50 && (live > 0 || !hasLive) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d parts were not folded; counted are %v parts of sessions, of 50 at least, and %v of live sums", parts, folded, live)
			}
		}
		if sessions != 50 || events != 3000 {
			t.Errorf("%d sessions of %d events, want 50 of 3000", sessions, events)
		}
		one.stop()
		two.stop()
		if _, live := counted(); live > 0 && !hasLive {
			t.Errorf("%v parts of live sums were folded where there are none", live)
		}
	})
}
