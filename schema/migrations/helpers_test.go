package migrations_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

var quiet = slog.New(slog.DiscardHandler)

// connect opens a connection of the test's own.
func connect(t *testing.T, db *schematest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the only value of the only row.
func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// column returns the values of the only column.
func column[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, _ := conn.Query(t.Context(), sql, args...)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

func up(t *testing.T, conn *pgx.Conn, opt migrations.Options) {
	t.Helper()
	opt.Log = quiet
	if err := migrations.Up(t.Context(), conn, opt); err != nil {
		t.Fatal(err)
	}
}

// still returns a connection to a database whose jobs run only when the test says so, whatever the server's settings are.
func still(t *testing.T, db *schematest.DB) *pgx.Conn {
	t.Helper()
	conn := connect(t, db)
	if db.Edition == migrations.Community {
		exec(t, conn, `select alter_job(job_id, scheduled => false) from timescaledb_information.jobs where job_id >= 1000`)
	}
	return conn
}

// eachEmpty runs f as a parallel subtest on a database of every edition that has nothing in it.
func eachEmpty(t *testing.T, f func(t *testing.T, db *schematest.DB)) {
	t.Helper()
	for _, e := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			f(t, schematest.Empty(t, e))
		})
	}
}

const day = 24 * time.Hour

// testEvent is what these tests care about in an event; the rest is made up from it.
type testEvent struct {
	At      time.Time
	Account int
	Agent   string
	Latency *int64
	Cost    int64
}

// The notes and the live sums are written as the processor writes them.
const insertEvents = `
with e as (
    select * from unnest($1::timestamptz[], $2::integer[], $3::text[], $4::bigint[], $5::bigint[]) as e (ts, account, agent, latency, cost)
), late as (
    insert into late_buckets (bucket, noted_at)
    select distinct date_bin('15 minutes', ts, timestamptz '2000-01-01 00:00:00+00'), now() from e where ts < now() - interval '1 hour'
    on conflict (bucket) do update set noted_at = excluded.noted_at
), stored as (
insert into events (
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd, cost_source, kafka_partition, kafka_offset)
select
    ts, format('00000000-0000-0000-0000-%s', lpad(account::text, 12, '0'))::uuid, gen_random_uuid(), now(), agent,
    case when cost % 2 = 0 then 'openai' else '' end, 'model-' || cost % 3, 'ses_' || cost, false,
    case when cost % 7 = 0 then 'error' else 'ok' end,
    cost % 1000, cost % 100, cost % 10, cost % 5, cost % 3, cost % 4,
    latency, cost, case when cost % 11 = 0 then 'unpriced' else 'calculated' end, 0, 0
from e
returning *
)`

// countStored ends insertEvents where there are no live sums yet.
const countStored = `
select count(*) from stored`

const insertLive = `
insert into usage_live as l
select date_bin('15 minutes', ts, timestamptz '2000-01-01 00:00:00+00') as bucket, account_id, agent, model, provider,
    count(*), count(*) filter (where status = 'error'), count(*) filter (where cost_source = 'unpriced'),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens + cache_write_1h_tokens),
    sum(reasoning_tokens), sum(cost_nano_usd), count(latency_ms), coalesce(sum(latency_ms), 0), max(latency_ms),
    coalesce(sum(latency_histogram(latency_ms)), 0), min(ts), max(ts)
from stored where ts >= (select quarters from usage_watermarks)
group by 1, 2, 3, 4, 5 order by account_id, bucket, agent, model, provider
on conflict (account_id, bucket, agent, model, provider) do update set
    events = l.events + excluded.events, errors = l.errors + excluded.errors, unpriced_events = l.unpriced_events + excluded.unpriced_events,
    input_tokens = l.input_tokens + excluded.input_tokens, output_tokens = l.output_tokens + excluded.output_tokens,
    cache_read_tokens = l.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = l.cache_write_tokens + excluded.cache_write_tokens, reasoning_tokens = l.reasoning_tokens + excluded.reasoning_tokens,
    cost_nano_usd = l.cost_nano_usd + excluded.cost_nano_usd, latency_count = l.latency_count + excluded.latency_count,
    latency_sum_ms = l.latency_sum_ms + excluded.latency_sum_ms, latency_max_ms = greatest(l.latency_max_ms, excluded.latency_max_ms),
    latency_histogram = l.latency_histogram + excluded.latency_histogram,
    first_ts = least(l.first_ts, excluded.first_ts), last_ts = greatest(l.last_ts, excluded.last_ts)`

// insert stores events, and notes those that are late.
func insert(t *testing.T, conn *pgx.Conn, events ...testEvent) {
	t.Helper()
	if err := tryInsert(t.Context(), conn, events); err != nil {
		t.Fatal(err)
	}
}

func tryInsert(ctx context.Context, conn *pgx.Conn, events []testEvent) error {
	var (
		at       []time.Time
		accounts []int
		agents   []string
		latency  []*int64
		cost     []int64
	)
	for _, e := range events {
		at, accounts, agents = append(at, e.At), append(accounts, e.Account), append(agents, e.Agent)
		latency, cost = append(latency, e.Latency), append(cost, e.Cost)
	}
	var live bool
	if err := conn.QueryRow(ctx, `select to_regclass('usage_live') is not null`).Scan(&live); err != nil {
		return err
	}
	statement := insertEvents + countStored
	if live {
		statement = insertEvents + insertLive
	}
	_, err := conn.Exec(ctx, statement, at, accounts, agents, latency, cost)
	return err
}
