package usage_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// In a database without statistics, where the planner expects next to nothing, the list
// of many agents is still not made by comparing each of them with each: what the
// statement looks at grows with their number and not with its square.
func TestAgentsAreListedWithoutStatistics(t *testing.T) {
	t.Parallel()
	const agents, visitsEach = 2_000, 300
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		accountID, day := schema.NewID(time.Now()), time.Now().UTC().Truncate(24*time.Hour)
		// No statistics are made of what is not committed.
		for _, statement := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO accounts (id, name) VALUES ($1, 'many agents')`, []any{accountID}},
			{insertManyAgents, []any{accountID, day.Add(-48 * time.Hour), agents}},
			{`INSERT INTO sessions (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
				SELECT account_id, session_id, ARRAY[agent], '{}', 1, 0, 1, 1, cost_nano_usd, ts, ts FROM events WHERE account_id = $1`, []any{accountID}},
			{`SET LOCAL plan_cache_mode = force_generic_plan`, nil},
			{`SET LOCAL jit = off`, nil},
		} {
			if _, err := tx.Exec(t.Context(), statement.sql, statement.args...); err != nil {
				t.Fatalf("%.60s: %v", statement.sql, err)
			}
		}
		if err := schematest.SumEvents(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		top, text := explain(t, tx, usage.SelectAgents, accountID, day.Add(-30*24*time.Hour), day.Add(time.Hour),
			day.Add(-30*24*time.Hour), day, nil, nil, "cost_usd", nil, nil, 51)
		if visits := top.visits(); top.Rows != 51 || visits > agents*visitsEach {
			t.Errorf("%v of %d agents take %.0f visits of rows, want at most %d:\n%.4000s", top.Rows, agents, visits, agents*visitsEach, text)
		}
	})
}

// Sessions that are listed while batches add to others are not compared with each of
// those.
func TestSessionsAreListedWhileManyArePending(t *testing.T) {
	t.Parallel()
	const sessions, pending, visitsEach = 3_000, 1_000, 50
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		tx, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		accountID, now := schema.NewID(time.Now()), time.Now().UTC()
		for _, statement := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO accounts (id, name) VALUES ($1, 'many sessions')`, []any{accountID}},
			{insertManySessions, []any{accountID, now.Add(-48 * time.Hour), sessions, pending}},
			{`SET LOCAL plan_cache_mode = force_generic_plan`, nil},
			{`SET LOCAL jit = off`, nil},
		} {
			if _, err := tx.Exec(t.Context(), statement.sql, statement.args...); err != nil {
				t.Fatalf("%.60s: %v", statement.sql, err)
			}
		}
		for _, order := range []usage.SessionOrder{usage.SessionsByStart, usage.SessionsByCost} {
			q := usage.SessionQuery{From: now.Add(-30 * 24 * time.Hour), To: now, Order: order, Descending: true, Limit: 51}
			statement, args, err := q.Statement(accountID)
			if err != nil {
				t.Fatal(err)
			}
			top, text := explain(t, tx, statement, args...)
			if visits := top.visits(); top.Rows != 51 || visits > sessions*visitsEach {
				t.Errorf("by %s: %v of %d sessions take %.0f visits of rows, want at most %d:\n%.4000s", order, top.Rows, sessions, visits, sessions*visitsEach, text)
			}
		}
	})
}

// insertManySessions makes $3 sessions and adds to the first $4 of them.
const insertManySessions = `
WITH made AS (
	INSERT INTO sessions (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
	SELECT $1, 'ses_' || i, '{a}', '{}', 1, 0, 1, 1, i, $2::timestamptz + i * interval '1 s', $2::timestamptz + i * interval '1 s'
	FROM generate_series(1, $3::int) AS i
	RETURNING account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
)
INSERT INTO session_parts (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
SELECT * FROM made WHERE cost_nano_usd <= $4`

// explain runs a statement and returns what its plan came to, and the plan as text.
func explain(t *testing.T, tx pgx.Tx, statement string, args ...any) (top *plan, text string) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)`+statement, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	return &plans[0].Plan, text
}

const insertManyAgents = `
INSERT INTO events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status, input_tokens,
	output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, cost_nano_usd, cost_source, kafka_partition, kafka_offset)
SELECT $2, $1, gen_random_uuid(), $2, 'agent-' || i, 'openai', 'm', 'ses_' || i, false, 'ok', 1, 1, 0, 0, 0, 0, i, 'calculated', 0, i
FROM generate_series(1, $3::int) AS i`

// plan is a node of a plan that ran.
type plan struct {
	Rows          float64 `json:"Actual Rows"`
	Loops         float64 `json:"Actual Loops"`
	RemovedByJoin float64 `json:"Rows Removed by Join Filter"`
	Removed       float64 `json:"Rows Removed by Filter"`
	Plans         []plan
}

// visits is how many rows the node and those below it looked at.
func (p *plan) visits() float64 {
	n := (p.Rows + p.RemovedByJoin + p.Removed) * p.Loops
	for i := range p.Plans {
		n += p.Plans[i].visits()
	}
	return n
}
