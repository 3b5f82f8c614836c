package query_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// sizeOf reads a size from the environment, for tests and benchmarks that show most
// when they are large.
func sizeOf(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a whole number above 0", name, text)
	}
	return n
}

// fleet is what a company's agents sent in some time. Sessions begin one after the
// other through all of it, one event in each half minute.
type fleet struct {
	account   schema.ID
	from, to  time.Time
	events    int
	sessions  int
	agents    int
	models    int // in all
	eachAgent int // of them that an agent calls
}

// insertFleet stores the events numbered $2 to $3, and what a processor adds up of
// their sessions.
const insertFleet = `
WITH stored AS (
INSERT INTO events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status, user_id,
	input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, latency_ms,
	cost_nano_usd, cost_source, price_id, cost_breakdown, metadata, kafka_partition, kafka_offset)
SELECT at, $1, encode(overlay(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((extract(epoch FROM at) * 1000)::bigint) FROM 3) FROM 1)
		PLACING '\x70'::bytea FROM 7 FOR 1), 'hex')::uuid, at, 'agent-' || lpad(agent::text, 3, '0'), (ARRAY['openai', 'anthropic', 'google', 'mistral'])[1 + model % 4],
	'model-' || lpad(model::text, 2, '0'), 'ses_' || lpad(session::text, 10, '0') || '-conversation', false,
	CASE WHEN i % 97 = 0 THEN 'error' ELSE 'ok' END, 'user-' || session % 5000,
	200 + (i * 7919) % 4800, 20 + (i * 104729) % 780, (i * 31) % 200, 0, 0, 0, 50 + (i * 15485863) % 4000,
	1000 + (i * 32452843) % 9999000, CASE WHEN i % 211 = 0 THEN 'unpriced' ELSE 'calculated' END, 'openai/gpt-4o@2024-10-02',
	'[{"kind":"input","tokens":1200,"rate_usd_per_mtok":2.5,"cost_usd":0.003,"tier":"base","rule":"equals gpt-4o"}]',
	'{"env":"prod","team":"search","attempt":1}', 0, i
FROM (
	SELECT i, session, agent, (agent * 7 + (i * 7919) % $9) % $8 AS model, $4::timestamptz + session * $5::interval + step * interval '30 seconds' AS at
	FROM (
		SELECT i, i / $6 AS session, i % $6 AS step, (i / $6 * 7919) % $7 AS agent
		FROM generate_series($2::bigint, $3::bigint) AS i
	) AS numbered
) AS placed
RETURNING account_id, session_id, agent, user_id, status, input_tokens, output_tokens, cost_nano_usd, ts
)
INSERT INTO session_parts (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
SELECT account_id, session_id, array_agg(DISTINCT agent), array_agg(DISTINCT user_id), count(*), count(*) FILTER (WHERE status = 'error'),
	sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), min(ts), max(ts)
FROM stored GROUP BY account_id, session_id`

// capped is how many agents of a fleet have a cap.
const capped = 10

// cap gives the fleet its caps.
func (f *fleet) cap(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for i := range capped {
		err := budget.NewStore(pool).Put(t.Context(), budget.Budget{
			Scope: budget.Scope{AccountID: f.account, Agent: fmt.Sprintf("agent-%03d", i)},
			Limit: 50_000_000_000, Period: budget.Month, Timezone: "UTC", OnUnpriced: budget.Allow,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// piece is how many events are stored by one statement.
const piece = 250_000

// store loads the fleet, its sessions and, where there are any, its aggregates.
func (f *fleet) store(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	began := time.Now()
	steps := f.events / f.sessions
	every := (f.to.Sub(f.from) - time.Duration(steps)*30*time.Second) / time.Duration(f.sessions)
	for first := 0; first < f.events; first += piece {
		mustExec(t, pool, insertFleet, f.account, first, min(first+piece, f.events)-1, f.from, every, steps, f.agents, f.models, f.eachAgent)
	}
	mustExec(t, pool, `SELECT fold_sessions(2147483647)`)
	t.Logf("stored %d events in %v", f.events, time.Since(began).Round(time.Second))
	if err := schematest.SumEvents(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := upkeep.RefreshRollups(t.Context(), conn.Conn(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"events", "sessions", "session_parts", "usage_15m", "usage_hourly", "usage_daily", "usage_daily_agents"} {
		// A view that keeps nothing has nothing to analyse.
		if _, err := pool.Exec(t.Context(), `VACUUM (ANALYZE) `+materialized(t, pool, table)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("with sums and statistics after %v", time.Since(began).Round(time.Second))
}

// aggregates reports whether the database keeps the usage relations up.
func aggregates(t testing.TB, pool *pgxpool.Pool) (kept bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT edition = 'community' FROM schema_settings`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	return kept
}

// materialized returns the table that holds what a continuous aggregate keeps; any
// other table is its own, and a plain view has the quarter hours.
func materialized(t testing.TB, pool *pgxpool.Pool, relation string) (table string) {
	t.Helper()
	if !aggregates(t, pool) {
		if relation[:5] == "usage" {
			return "usage_15m"
		}
		return relation
	}
	err := pool.QueryRow(t.Context(), `
		SELECT materialization_hypertable_schema || '.' || materialization_hypertable_name
		FROM timescaledb_information.continuous_aggregates WHERE view_name = $1`, relation).Scan(&table)
	if errors.Is(err, pgx.ErrNoRows) {
		return relation
	}
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func mustExec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	// Loading a large fleet takes longer than any timeout that a server may have.
	if _, err := pool.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql[:min(len(sql), 200)], err)
	}
}

// ownerOf makes a new owner of an account and signs them in.
func (w *world) ownerOf(accountID schema.ID) *person {
	w.t.Helper()
	p := &person{world: w, account: accountID}
	p.user = p.colleague(fmt.Sprintf("owner-%s@example.com", schema.NewID(time.Now()).Text("")), account.Owner)
	p.token = w.tokenFor(p.user)
	return p
}
