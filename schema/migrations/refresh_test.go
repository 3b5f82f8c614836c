package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

func refreshLate(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	n, err := migrations.RefreshLate(t.Context(), conn, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func notes(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return one[int](t, conn, `select count(*) from late_buckets`)
}

// event is a plain event at a time.
func event(at time.Time) testEvent { return testEvent{At: at, Account: 1, Agent: "a", Cost: 1_000_003} }

// A late event is in all usage relations after one RefreshLate, though its bucket was materialised without it.
func TestRefreshLateBringsLateEventsIn(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		at := time.Now().Add(-50 * time.Hour)
		insert(t, conn, event(at), event(at.Add(25*time.Hour)))
		settleAll(t, conn)
		materialize(t, conn, db.Edition)

		insert(t, conn, event(at), event(at.Add(-3*day)))
		if n := refreshLate(t, conn); n != 2 {
			t.Errorf("RefreshLate settled %d notes, want 2", n)
		}
		checkUsage(t, conn)
	})
}

// A bucket that is noted again between its refresh and the end of its note is refreshed once more.
func TestRefreshLateKeepsWhatIsNotedAgain(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	at := time.Now().Add(-3 * time.Hour)
	insert(t, conn, event(at), event(at.Add(-time.Hour)))
	n, err := migrations.SettleWhatWasRead(t.Context(), conn, func() { insert(t, conn, event(at)) })
	if n != 1 || err != nil || notes(t, conn) != 1 {
		t.Errorf("settled %d notes and left %d, %v; want 1 and 1", n, notes(t, conn), err)
	}
}

// RefreshLate does not wait for a processor that is noting the bucket; the note stays.
func TestRefreshLatePassesOverNotesInUse(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn, processor := still(t, db), connect(t, db)
	at := time.Now().Add(-3 * time.Hour)
	insert(t, conn, event(at))
	exec(t, processor, `begin`)
	insert(t, processor, event(at))
	if n := refreshLate(t, conn); n != 0 || notes(t, conn) != 1 {
		t.Errorf("settled %d notes and left %d, want 0 and 1", n, notes(t, conn))
	}
	exec(t, processor, `commit`)
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes after the commit, want 1", n)
	}
	checkUsage(t, conn)
}

// Only one of several works; the others leave the notes to it.
func TestRefreshLateRunsOnce(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn, other := still(t, db), connect(t, db)
	insert(t, conn, event(time.Now().Add(-3*time.Hour)))
	exec(t, other, `select pg_advisory_lock($1)`, migrations.RefreshLock)
	if n := refreshLate(t, conn); n != 0 || notes(t, conn) != 1 {
		t.Errorf("settled %d notes and left %d, want 0 and 1", n, notes(t, conn))
	}
	exec(t, other, `select pg_advisory_unlock_all()`)
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes when nobody else works, want 1", n)
	}
	if one[bool](t, conn, `select exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())`) {
		t.Error("RefreshLate kept its lock")
	}
}

const pretendRefresh = `
insert into _timescaledb_catalog.continuous_aggs_jobs_refresh_ranges
    (materialization_id, start_range, end_range, pid, job_id, created_at)
select mat_hypertable_id, 0, 9000000000000000, $1, 0, now()
from _timescaledb_catalog.continuous_agg where user_view_name = 'usage_hourly'`

// A policy that is refreshing the range is no error: the note stays until it is done.
func TestRefreshLateGivesWayToAPolicy(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn, policy := still(t, db), connect(t, db)
	insert(t, conn, event(time.Now().Add(-5*time.Hour)))
	exec(t, conn, pretendRefresh, int32(policy.PgConn().PID()))
	if n := refreshLate(t, conn); n != 0 || notes(t, conn) != 1 {
		t.Errorf("settled %d notes and left %d, want 0 and 1", n, notes(t, conn))
	}
	exec(t, conn, `delete from _timescaledb_catalog.continuous_aggs_jobs_refresh_ranges`)
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes after the policy, want 1", n)
	}
	checkUsage(t, conn)
}

// A policy that is due would fail on meeting a refresh, so it goes first; one whose time is long past, or that is not scheduled,
// does not run.
func TestRefreshLateLetsADuePolicyGoFirst(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	insert(t, conn, event(time.Now().Add(-5*time.Hour)))
	job := one[int32](t, conn, selectRefreshJob)
	const due = `select alter_job($1, next_start => now() + interval '1 second', scheduled => $2)`
	exec(t, conn, due, job, true)
	if n := refreshLate(t, conn); n != 0 || notes(t, conn) != 1 {
		t.Errorf("settled %d notes and left %d, want 0 and 1", n, notes(t, conn))
	}
	exec(t, conn, due, job, false)
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes though the policy is not scheduled, want 1", n)
	}
	insert(t, conn, event(time.Now().Add(-5*time.Hour)))
	exec(t, conn, `select alter_job($1, next_start => now() - interval '1 hour', scheduled => true)`, job)
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes though no policy runs, want 1", n)
	}
}

// Refreshing a bucket above the watermark raises the watermark: what lies between must not go missing.
func TestRefreshLateLeavesNoGapBelowTheWatermark(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	now := time.Now()
	insert(t, conn, event(now.Add(-5*day)))
	settleAll(t, conn)
	materialize(t, conn, migrations.Community)

	insert(t, conn, event(now.Add(-80*time.Hour)), event(now.Add(-60*time.Hour)))
	exec(t, conn, `delete from late_buckets where bucket < now() - interval '70 hours'`)
	checkUsage(t, conn) // Both are above the watermark still.
	if n := refreshLate(t, conn); n != 1 {
		t.Errorf("settled %d notes, want 1", n)
	}
	checkUsage(t, conn)
}

// What is young enough to get events that are not late is not materialised, at any level.
func TestRefreshLateMaterializesNothingYoung(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	at := time.Now().Add(-62 * time.Minute)
	insert(t, conn, event(at), event(at.Add(-4*time.Hour)))
	settleAll(t, conn)
	for view := range usageRelations {
		end := one[*time.Time](t, conn, `select max(m.range_end) from (`+selectMaterializedTo+`) m`, view)
		if end != nil && end.After(time.Now().Add(-migrations.MaterializedAfter)) {
			t.Errorf("%s is materialised up to %v", view, end)
		}
	}
	insert(t, conn, event(at))
	exec(t, conn, `delete from late_buckets`)
	checkUsage(t, conn)
}

const selectMaterializedTo = `
select nullif(_timescaledb_functions.to_timestamp(_timescaledb_functions.cagg_watermark(mat_hypertable_id)), '-infinity') as range_end
from _timescaledb_catalog.continuous_agg
where user_view_name = $1`

// Events may arrive for days that the columnstore holds already.
func TestRefreshLateOverTheColumnstore(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	now := time.Now()
	insert(t, conn, randomEvents(300, now.Add(-20*day), now.Add(-10*day))...)
	settleAll(t, conn)
	runJob(t, conn, "policy_compression")
	if n := one[int](t, conn, `select count(*) from timescaledb_information.chunks where is_compressed`); n < 9 {
		t.Fatalf("%d chunks are in the columnstore, want at least 9", n)
	}
	insert(t, conn, randomEvents(100, now.Add(-20*day), now)...)
	settleAll(t, conn)
	checkUsage(t, conn)
}

// A database that was down for longer than the refresh window catches up before its policies pass over what it had left.
func TestUpCatchesUpAfterALongPause(t *testing.T) {
	t.Parallel()
	conn := still(t, schematest.DatabaseOf(t, migrations.Community))
	stopped := time.Now().Add(-60 * day)
	insert(t, conn, event(stopped.Add(-3*time.Hour)))
	for _, l := range []string{"usage_15m", "usage_hourly", "usage_daily", "usage_daily_agents"} {
		// Three days hold two whole ones at any time of the day.
		exec(t, conn, `call refresh_continuous_aggregate(('aggregates.' || $1)::regclass, $2::timestamptz, $3::timestamptz)`, l, stopped.Add(-3*day), stopped.Add(-2*time.Hour))
	}
	insert(t, conn, event(stopped.Add(-time.Minute)), event(time.Now().Add(-5*time.Hour)))
	exec(t, conn, `delete from late_buckets`)

	up(t, conn, migrations.Options{})
	materialize(t, conn, migrations.Community)
	checkUsage(t, conn)
}

// A level that an upgrade brings holds all days before it gets a policy: that reaches 45 days back, and would pass over the others.
func TestUpFillsANewLevelBeforeItsPolicy(t *testing.T) {
	t.Parallel()
	db := schematest.Empty(t, migrations.Community)
	conn, other := connect(t, db), connect(t, db)
	exec(t, conn, `create extension timescaledb`)
	const before = 35
	if err := migrations.MigrateTo(t.Context(), conn, migrations.Community, before); err != nil {
		t.Fatal(err)
	}
	insert(t, conn, randomEvents(200, time.Now().Add(-100*day), time.Now())...)
	for _, view := range []string{"usage_15m", "usage_hourly", "usage_daily"} {
		exec(t, conn, `call refresh_continuous_aggregate(('aggregates.' || $1)::regclass, null, now() - interval '75 minutes')`, view)
	}
	if err := migrations.MigrateTo(t.Context(), conn, migrations.Community, 0); err != nil {
		t.Fatal(err)
	}

	const locked = `select pid from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) // It ends the wait where the test has failed.
	table := one[string](t, conn, `
		select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)
		from timescaledb_information.continuous_aggregates where view_name = 'usage_daily_agents'`)
	if _, err := tx.Exec(t.Context(), `lock table `+table+` in share mode`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- migrations.Up(t.Context(), conn, migrations.Options{Log: quiet}) }()
	for len(column[int](t, other, locked)) == 0 {
		select {
		case err := <-done:
			t.Fatalf("Up filled nothing, %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if names := column[string](t, other, `select hypertable_name::text from timescaledb_information.jobs where proc_name = 'policy_refresh_continuous_aggregate'`); len(names) > 0 {
		t.Errorf("there are policies for %q before usage_daily_agents is filled", names)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	exec(t, conn, `call refresh_continuous_aggregate('aggregates.usage_daily_agents', now() - interval '45 days', now() - interval '75 minutes')`)
	checkUsage(t, conn)
}
