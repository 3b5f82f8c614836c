package upkeep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// usageRelations maps the usage relations to the widths of their buckets.
var usageRelations = map[string]string{"usage_15m": "15 minutes", "usage_hourly": "1 hour", "usage_daily": "1 day"}

const expectUsage = `
select row(date_bin($1::interval, ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent, model, provider,
    count(*), count(*) filter (where status = 'error'), count(*) filter (where cost_source = 'unpriced'),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens + cache_write_1h_tokens),
    sum(reasoning_tokens), sum(cost_nano_usd), count(latency_ms), coalesce(sum(latency_ms), 0), max(latency_ms),
    coalesce(sum(latency_histogram(latency_ms)), 0), min(ts), max(ts))::text as line
from events
group by date_bin($1::interval, ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent, model, provider
order by 1`

const selectUsage = `
select row(bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts)::text as line
from `

// checkUsage holds every column of every usage relation against the sums over the events.
func checkUsage(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for view, width := range usageRelations {
		want := column[string](t, conn, expectUsage, width)
		got := column[string](t, conn, selectUsage+view+` order by 1`)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sums over the events (-) and %s (+) differ:\n%.3000s", view, diff)
		}
	}
	want, got := column[string](t, conn, expectDaysOfAgents), column[string](t, conn, selectDaysOfAgents)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums over the events (-) and usage_daily_agents (+) differ:\n%.3000s", diff)
	}
}

const expectDaysOfAgents = `
select row(date_bin('1 day', ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent,
    count(*), count(*) filter (where status = 'error'), count(*) filter (where cost_source = 'unpriced'),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens + cache_write_1h_tokens),
    sum(reasoning_tokens), sum(cost_nano_usd), count(latency_ms), coalesce(sum(latency_ms), 0), max(latency_ms),
    coalesce(sum(latency_histogram(latency_ms)), 0), min(ts), max(ts), array_agg(distinct model order by model))::text as line
from events
group by date_bin('1 day', ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent
order by 1`

const selectDaysOfAgents = `
select row(bucket, account_id, agent, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts,
    array(select model from unnest(models) as model order by model))::text as line
from usage_daily_agents order by 1`

// The usage relations are the sums over the events: before anything is materialised, after it, with events of the last seconds, with
// late ones once the rollups are refreshed, and with such as fall into days that the columnstore holds already.
func TestUsageIsTheSumOfTheEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		now := time.Now()
		insert(t, db, randomEvents(500, now.Add(-20*day), now)...)
		checkUsage(t, conn)
		refresh(t, conn)
		checkUsage(t, conn)
		insert(t, db, randomEvents(100, now.Add(-30*time.Second), time.Now())...)
		checkUsage(t, conn)
		if db.Edition == migrations.Community {
			exec(t, conn, `select compress_chunk(c) from show_chunks('events', older_than => interval '10 days') c`)
		}
		insert(t, db, randomEvents(200, now.Add(-30*day), now)...)
		refresh(t, conn)
		checkUsage(t, conn)
		refresh(t, conn)
		checkUsage(t, conn)
	})
}

const createCommits = `create table commits (partition integer, next_offset bigint, at timestamptz)`

// Of each bucket a view has at least the events of the batches that were committed before the last refresh began, and at most those
// that are stored. What is younger than anything materialised it has exactly.
const selectInexact = `
with done as (
    select c.partition, max(c.next_offset) as next_offset
    from commits c, usage_progress p where c.at < p.refreshed_at group by 1
), raw as (
    select date_bin($1::interval, ts, timestamptz '2000-01-01 00:00:00+00') as bucket, count(*) as most, sum(cost_nano_usd) as most_cost,
        count(*) filter (where kafka_offset < d.next_offset) as least, coalesce(sum(cost_nano_usd) filter (where kafka_offset < d.next_offset), 0) as least_cost
    from events e left join done d on d.partition = e.kafka_partition group by 1
), used as (
    select bucket, sum(events) as events, sum(cost_nano_usd) as cost from %s group by 1
)
select format('%%s: events %%s, usage %%s', bucket, raw, used)
from raw full join used using (bucket)
where case when $2 or bucket + interval '1 hour' > $3 then (events, cost) is distinct from (most, most_cost)
    else coalesce(events, 0) not between least and most or coalesce(cost, 0) not between least_cost and most_cost end`

// readExact compares the usage relations with the events, all of one moment.
func readExact(ctx context.Context, conn *pgx.Conn) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error {
		for view, width := range usageRelations {
			rows, _ := tx.Query(ctx, fmt.Sprintf(selectInexact, view), width, view == "usage_15m", time.Now().Add(-materializeAfter))
			wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if len(wrong) > 0 {
				return fmt.Errorf("%s is wrong: %q", view, wrong)
			}
		}
		return nil
	})
}

// Whoever looks in the middle of it all sees exact quarter hours, and hours and days that lack nothing that was stored before the
// last refresh: while two processors store events of the last minutes and late ones, and two refresh the rollups. At the end
// everything is exact. The clock of the refreshes is the test's own, an hour on at each step, so that buckets are materialised all
// the while into which events are being stored.
func TestSumsAreExactAtAnyMoment(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn := connect(t, db)
	exec(t, conn, createCommits)
	const steps = 30
	start := time.Now().Add(-steps * time.Hour)
	for step := range steps {
		now := start.Add(time.Duration(step) * time.Hour)
		g, ctx := errgroup.WithContext(t.Context())
		for partition := range int32(2) {
			g.Go(func() error { return storeBatches(ctx, db, partition, now) })
		}
		run := func(times int, f func(context.Context, *pgx.Conn) error) {
			g.Go(func() error {
				conn, err := pgx.Connect(ctx, db.URL)
				if err != nil {
					return err
				}
				defer conn.Close(context.WithoutCancel(ctx))
				for range times {
					if err := f(ctx, conn); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 2 {
			run(3, func(ctx context.Context, conn *pgx.Conn) error {
				_, err := RefreshRollups(ctx, conn, now)
				return err
			})
			run(5, readExact)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	refresh(t, conn)
	checkUsage(t, conn)
	if until := one[time.Time](t, conn, `select min(materialized_until) from rollups`); until.Before(start.Truncate(day)) {
		t.Errorf("the rollups are materialised until %v only", until)
	}
}

const insertCommit = `insert into commits values ($1, $2, clock_timestamp())`

// storeBatches stores events of the time around now, into buckets that are just being materialised, and of the days before.
func storeBatches(ctx context.Context, db *schematest.DB, partition int32, now time.Time) error {
	w, err := newWriter(ctx, db.Pool, partition)
	if err != nil {
		return err
	}
	for range 5 {
		events := append(randomEvents(20, now.Add(-90*time.Minute), now.Add(time.Hour)), randomEvents(5, now.Add(-2*day), now)...)
		if err := w.store(ctx, events); err != nil {
			return err
		}
		if _, err := db.Pool.Exec(ctx, insertCommit, partition, w.next); err != nil {
			return err
		}
	}
	return nil
}

// A refresh waits for the transactions that were writing when it materialised a bucket for the first time, and for no later ones.
func TestRefreshWaitsForWriters(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn, early, late := connect(t, db), connect(t, db), connect(t, db)
	insert(t, db, event(time.Now().Add(-3*time.Hour)))
	const write = `begin; update usage_15m set events = events where false`
	exec(t, early, write)
	refreshed := make(chan error, 1)
	go func() {
		_, err := RefreshRollups(t.Context(), conn, time.Now())
		refreshed <- err
	}()
	waiting := func() bool {
		return one[bool](t, late, `select exists (select from pg_stat_activity where pid = $1 and query like '%virtualtransaction = ANY%')`, int64(conn.PgConn().PID()))
	}
	for deadline := time.Now().Add(time.Minute); !waiting(); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-refreshed:
			t.Fatalf("the refresh ended while a transaction was writing: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the refresh does not come to wait")
		}
	}
	exec(t, late, write)
	exec(t, early, `commit`)
	if err := <-refreshed; err != nil {
		t.Fatal(err)
	}
	exec(t, late, `commit`)
}

const selectMaterialized = `
select chunk_name
from timescaledb_information.chunks c
join timescaledb_information.continuous_aggregates a on a.materialization_hypertable_name = c.hypertable_name
where a.view_name = $1`

// On Community what is old is read from what was materialised, not from quarter hours or events.
func TestUsageIsReadFromAggregates(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn := connect(t, db)
	now := time.Now()
	insert(t, db, randomEvents(500, now.Add(-20*day), now.Add(-3*day))...)
	refresh(t, conn)
	for _, view := range []string{"usage_hourly", "usage_daily"} {
		plan := one[json.RawMessage](t, conn, `explain (format json) select sum(cost_nano_usd) from `+view+
			` where account_id = '00000000-0000-0000-0000-000000000001' and bucket >= now() - interval '30 days'`)
		scanned := relations(t, plan)
		chunks := column[string](t, conn, selectMaterialized, view)
		if len(chunks) == 0 || !slices.ContainsFunc(chunks, func(c string) bool { return slices.Contains(scanned, c) }) {
			t.Errorf("%s reads %v, want chunks of its own among them: %v", view, scanned, chunks)
		}
		old := column[string](t, conn, `select chunk_name from timescaledb_information.chunks where hypertable_name in ('events', 'usage_15m') and range_end < now() - interval '4 days'`)
		if i := slices.IndexFunc(old, func(c string) bool { return slices.Contains(scanned, c) }); i >= 0 {
			t.Errorf("%s reads %s", view, old[i])
		}
	}
}

// relations returns the names of the relations that a plan reads.
func relations(t *testing.T, plan json.RawMessage) []string {
	t.Helper()
	var tree any
	if err := json.Unmarshal(plan, &tree); err != nil {
		t.Fatal(err)
	}
	var names []string
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case []any:
			for _, child := range n {
				walk(child)
			}
		case map[string]any:
			if name, ok := n["Relation Name"].(string); ok {
				names = append(names, name)
			}
			for _, child := range n {
				walk(child)
			}
		}
	}
	walk(tree)
	return names
}
