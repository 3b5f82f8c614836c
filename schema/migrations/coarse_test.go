package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// quartersTo materialises the quarter hours up to a time, as their policy does.
func quartersTo(t *testing.T, conn *pgx.Conn, to time.Time) {
	t.Helper()
	exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_15m', null, $1::timestamptz)`, to)
}

// hour stores an event in each quarter of an hour, of which no note tells, and returns the beginning of the hour.
func hour(t *testing.T, conn *pgx.Conn, ago time.Duration) time.Time {
	t.Helper()
	start := time.Now().Add(-ago).Truncate(time.Hour)
	for quarter := range 4 {
		insert(t, conn, event(start.Add(time.Duration(quarter)*15*time.Minute)))
	}
	exec(t, conn, `delete from late_buckets`)
	return start
}

// However far behind the quarter hours are, and whatever is refreshed meanwhile, an hour is made of all four of them.
func TestHoursWaitForTheirQuarters(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]func(t *testing.T, conn *pgx.Conn, start time.Time){
		"nothing else": func(*testing.T, *pgx.Conn, time.Time) {},
		"a late event in the hour": func(t *testing.T, conn *pgx.Conn, start time.Time) {
			insert(t, conn, event(start.Add(time.Minute)))
			settleAll(t, conn)
		},
		"a late event on the day before": func(t *testing.T, conn *pgx.Conn, start time.Time) {
			insert(t, conn, event(start.Add(-day)))
			settleAll(t, conn)
		},
		"migrate": func(t *testing.T, conn *pgx.Conn, _ time.Time) { up(t, conn, migrations.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := still(t, schematest.DatabaseOf(t, migrations.Community))
			insert(t, conn, randomEvents(50, time.Now().Add(-4*day), time.Now().Add(-30*time.Hour))...)
			settleAll(t, conn)
			start := hour(t, conn, 5*time.Hour)
			quartersTo(t, conn, start.Add(30*time.Minute))
			refreshCoarse(t, conn)
			checkUsage(t, conn)
			during(t, conn, start)
			checkUsage(t, conn)
			quartersTo(t, conn, start.Add(time.Hour))
			checkUsage(t, conn)
			refreshCoarse(t, conn)
			checkUsage(t, conn)
			if mark := one[time.Time](t, conn, `select hours from usage_watermarks`); mark.Before(start.Add(time.Hour)) {
				t.Errorf("hours are materialised up to %v, want %v", mark, start.Add(time.Hour))
			}
		})
	}
}

// What was refreshed by hand, or by an earlier version, before its quarter hours were there is made anew once they are, whether
// somebody looked meanwhile or not.
func TestRefreshCoarseMendsWhatWasMadeTooEarly(t *testing.T) {
	t.Parallel()
	for _, looked := range []bool{false, true} {
		conn := still(t, schematest.DatabaseOf(t, migrations.Community))
		start := hour(t, conn, 5*time.Hour)
		quartersTo(t, conn, start.Add(15*time.Minute))
		exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_hourly', $1::timestamptz, $2::timestamptz)`, start, start.Add(time.Hour))
		if looked {
			refreshCoarse(t, conn)
		}
		quartersTo(t, conn, start.Add(time.Hour))
		const inHour = `select events from usage_hourly where bucket = $1`
		if n := one[int](t, conn, inHour, start); n != 1 {
			t.Fatalf("the hour has %d events, want the one that was there when it was refreshed", n)
		}
		refreshCoarse(t, conn)
		checkUsage(t, conn)
	}
}

// Quarter hours that change without a note, as where events were changed by hand, take hours and days along.
func TestRefreshCoarseFollowsItsQuarters(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	now := time.Now()
	insert(t, conn, randomEvents(100, now.Add(-4*day), now.Add(-3*time.Hour))...)
	settleAll(t, conn)
	materialize(t, conn, migrations.Community)
	exec(t, conn, `update events set cost_nano_usd = cost_nano_usd + 1 where ts < now() - interval '2 days'`)
	materialize(t, conn, migrations.Community)
	checkUsage(t, conn)
}

// Only one of several works, and where there are no aggregates there is nothing to do.
func TestRefreshCoarseRunsOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		still(t, db)
		cfg, err := pgx.ParseConfig(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		cfg.RuntimeParams["statement_timeout"] = "29s"
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		other := connect(t, db)
		exec(t, other, `select pg_advisory_lock($1)`, migrations.RefreshLock)
		done, err := migrations.RefreshCoarse(t.Context(), conn, time.Now())
		if want := db.Edition != migrations.Community; err != nil || done != want {
			t.Errorf("done %t, %v; want %t", done, err, want)
		}
		exec(t, other, `select pg_advisory_unlock_all()`)
		refreshCoarse(t, conn)
		if one[bool](t, conn, `select exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())`) {
			t.Error("RefreshCoarse kept its lock")
		}
		if timeout := one[string](t, conn, `show statement_timeout`); timeout != "29s" {
			t.Errorf("the statement timeout is %s", timeout)
		}
	})
}

// A refresh of a day must not look at the events: in real time it would look at all that are younger than what is materialised.
func TestAggregatesAreMadeOfWhatIsMaterialised(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Community))
	const inRealTime = `select view_name::text from timescaledb_information.continuous_aggregates where not materialized_only`
	if names := column[string](t, conn, inRealTime); len(names) > 0 {
		t.Errorf("%q are made in real time", names)
	}
}
