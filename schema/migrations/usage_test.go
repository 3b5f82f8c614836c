package migrations_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

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

// randomEvents returns n events between from and to, which fall into few groups.
func randomEvents(n int, from, to time.Time) []testEvent {
	events := make([]testEvent, n)
	for i := range events {
		events[i] = testEvent{
			At:      from.Add(rand.N(to.Sub(from))),
			Account: rand.IntN(3),
			Agent:   []string{"billing", "support", "rösti 🥔"}[rand.IntN(3)],
			Cost:    rand.Int64N(1_000_000_000),
		}
		if rand.IntN(10) > 0 {
			latency := rand.Int64N(1 << rand.IntN(26))
			events[i].Latency = &latency
		}
	}
	return events
}

// materialize refreshes the usage relations as their policy and a processor do. On the other editions there is nothing to refresh.
func materialize(t *testing.T, conn *pgx.Conn, e migrations.Edition) {
	t.Helper()
	if e != migrations.Community {
		return
	}
	exec(t, conn, `call run_job($1)`, one[int32](t, conn, selectRefreshJob))
	refreshCoarse(t, conn)
}

func refreshCoarse(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if done, err := migrations.RefreshCoarse(t.Context(), conn, time.Now()); err != nil || !done {
		t.Fatalf("RefreshCoarse: done %t, %v", done, err)
	}
}

// runJob runs a policy of the events once.
func runJob(t *testing.T, conn *pgx.Conn, policy string) {
	t.Helper()
	job := one[int32](t, conn, `select job_id from timescaledb_information.jobs where proc_name = $1 and hypertable_name = 'events'`, policy)
	exec(t, conn, `call run_job($1)`, job)
}

const selectRefreshJob = `
select job_id from timescaledb_information.jobs where proc_name = 'policy_refresh_continuous_aggregate'`

// The usage relations are the sums over the events at any moment: before anything is materialised, after it, with events of
// the last seconds, and with late ones once RefreshLate has seen to them.
func TestUsageIsTheSumOfTheEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := still(t, db)
		now := time.Now()
		insert(t, conn, randomEvents(500, now.Add(-4*day), now)...)
		checkUsage(t, conn)

		settleAll(t, conn)
		materialize(t, conn, db.Edition)
		checkUsage(t, conn)

		insert(t, conn, randomEvents(100, now.Add(-30*time.Second), time.Now())...)
		checkUsage(t, conn)

		insert(t, conn, randomEvents(200, now.Add(-30*day), now)...)
		settleAll(t, conn)
		checkUsage(t, conn)
	})
}

// settleAll runs RefreshLate until no note is left.
func settleAll(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for one[int](t, conn, `select count(*) from late_buckets`) > 0 {
		if _, err := migrations.RefreshLate(t.Context(), conn, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

const selectMaterialized = `
select chunk_name
from timescaledb_information.chunks c
join timescaledb_information.continuous_aggregates a on a.materialization_hypertable_name = c.hypertable_name
where a.view_name = $1`

// On Community what is old is read from what was materialised, not from the events.
func TestUsageIsReadFromAggregates(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn := still(t, db)
	now := time.Now()
	insert(t, conn, randomEvents(500, now.Add(-20*day), now.Add(-3*day))...)
	settleAll(t, conn)
	for view := range usageRelations {
		plan := one[json.RawMessage](t, conn, `explain (format json) select sum(cost_nano_usd) from `+view+
			` where account_id = '00000000-0000-0000-0000-000000000001' and bucket >= now() - interval '30 days'`)
		scanned := relations(t, plan)
		chunks := column[string](t, conn, selectMaterialized, view)
		if len(chunks) == 0 || !slices.ContainsFunc(chunks, func(c string) bool { return slices.Contains(scanned, c) }) {
			t.Errorf("%s reads %v, want chunks of its own among them: %v", view, scanned, chunks)
		}
		old := column[string](t, conn, `select chunk_name from timescaledb_information.chunks where hypertable_name = 'events' and range_end < now() - interval '4 days'`)
		if i := slices.IndexFunc(old, func(c string) bool { return slices.Contains(scanned, c) }); i >= 0 {
			t.Errorf("%s reads old events in %s", view, old[i])
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
