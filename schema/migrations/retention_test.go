package migrations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// usage returns all rows of all usage relations.
func usage(t *testing.T, conn *pgx.Conn) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for view := range usageRelations {
		all[view] = column[string](t, conn, selectUsage+view+` order by 1`)
	}
	return all
}

// Retention drops raw events and no sums: not by itself, not with the policies that run after it, and not when an event
// comes in for the time that was dropped.
func TestRetentionKeepsTheSums(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	up(t, conn, migrations.Options{RawRetention: 90 * day})
	old := time.Now().Add(-100 * day)
	insert(t, conn, randomEvents(300, old.Add(-5*day), old)...)
	insert(t, conn, randomEvents(100, time.Now().Add(-10*day), time.Now())...)
	for _, view := range []string{"usage_15m", "usage_hourly", "usage_daily", "usage_daily_agents"} { // As their policies did at the time.
		exec(t, conn, `call refresh_continuous_aggregate(('aggregates.' || $1)::regclass, null, $2::timestamptz)`, view, old.Add(2*day))
	}
	settleAll(t, conn)
	checkUsage(t, conn)
	want := usage(t, conn)

	dropExpired(t, conn)
	if n := one[int](t, conn, `select count(*) from events where ts < now() - interval '95 days'`); n != 0 {
		t.Fatalf("retention left %d old events", n)
	}
	materialize(t, conn, migrations.Community)
	if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
		t.Errorf("the policies after retention changed sums:\n%.2000s", diff)
	}

	insert(t, conn, event(old), event(old.Add(-day)))
	if n := refreshLate(t, conn); n != 2 {
		t.Errorf("RefreshLate settled %d notes, want 2", n)
	}
	materialize(t, conn, migrations.Community)
	up(t, conn, migrations.Options{RawRetention: 90 * day})
	if diff := cmp.Diff(want, usage(t, conn)); diff != "" {
		t.Errorf("a late event changed sums of dropped days:\n%.2000s", diff)
	}
}

// A longer retention brings nothing back: a refresh window that reaches what an earlier one dropped is refused.
func TestRefreshWindowMayNotReachDroppedEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		up(t, conn, migrations.Options{RawRetention: 60 * day})
		up(t, conn, migrations.Options{}) // From now on all is kept.
		opt := migrations.Options{RefreshWindow: 61 * day, RawRetention: 365 * day, Log: quiet}
		if err := migrations.Up(t.Context(), conn, opt); !errors.Is(err, migrations.ErrHorizons) {
			t.Errorf("Up = %v, want ErrHorizons", err)
		}
		kept := one[time.Duration](t, conn, `select refresh_window from schema_settings`)
		if kept != 45*day {
			t.Errorf("refresh window after a refused Up = %v, want the former one", kept)
		}
		up(t, conn, migrations.Options{RefreshWindow: 59 * day})
	})
}

func dropExpired(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	n, err := migrations.DropExpired(t.Context(), conn, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What is past its retention is dropped, but not before the aggregates hold it, where sums outlive their events.
func TestDropExpired(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		now := time.Now()
		drops := func(when string, want int) {
			t.Helper()
			if n := dropExpired(t, conn); n != want {
				t.Errorf("%s: %d dropped, want %d", when, n, want)
			}
		}
		up(t, conn, migrations.Options{RawRetention: 90 * day})
		insert(t, conn, event(now.Add(-100*day)), event(now.Add(-95*day)), event(now.Add(-80*day)), event(now))
		want := usage(t, conn)
		if db.Edition == migrations.Community {
			late := one[time.Time](t, conn, `select min(bucket) from late_buckets`)
			exec(t, conn, `delete from late_buckets`)
			drops("with aggregates that stand still", 0)
			exec(t, conn, `insert into late_buckets (bucket) values ($1)`, late)
			exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, now() - interval '2 hours')`)
			drops("with a note of a late event", 0)
			exec(t, conn, `delete from late_buckets`)
		}
		drops("with aggregates that hold all", 2)
		if diff := cmp.Diff(want, usage(t, conn)); diff != "" && db.Edition == migrations.Community {
			t.Errorf("sums changed:\n%.2000s", diff)
		}
		if left := one[int](t, conn, `select count(*) from events`); left != 2 {
			t.Errorf("%d events left, want 2", left)
		}
		drops("a second time", 0)
		up(t, conn, migrations.Options{})
		insert(t, conn, event(now.Add(-95*day)))
		drops("without a retention", 0)
	})
}
