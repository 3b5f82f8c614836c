package usage_test

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A row is the same whether it is read from the bytes of the wire or by pgx, whatever
// its numbers are.
func TestRowsAreReadAsPgxDoes(t *testing.T) {
	t.Parallel()
	const ask = `
		SELECT $1::int AS slot, $2::text AS agent, $3::text AS model, NULL::text AS provider, $4::bigint AS events, $4::bigint AS errors,
			$5::bigint AS unpriced_events, $6::numeric AS input_tokens, $7::numeric AS output_tokens, NULL::numeric AS cache_read_tokens,
			-($6::numeric) AS cost_usd, $4::bigint AS latency_count, $6::numeric AS latency_sum_ms, $5::bigint AS latency_max_ms,
			(SELECT sum(latency_histogram(ms)) FROM unnest($8::bigint[]) AS ms) AS latencies`
	pool := schematest.Database(t).Pool
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	number := func() string {
		digits := strings.Repeat("9", 1+random.IntN(60))
		n, _ := new(big.Int).SetString(digits, 10)
		n.Rsh(n, uint(random.IntN(200)))
		// Zeros at the end are what the database leaves out.
		return n.String() + strings.Repeat("0", random.IntN(12))
	}
	read := usage.RowReader()
	var wanted []map[string]any
	var all []usage.Row
	for range 300 {
		latencies := make([]int64, random.IntN(40))
		for i := range latencies {
			latencies[i] = random.Int64N(1 << random.IntN(53))
		}
		args := []any{random.Int32(), "a", "", random.Int64(), -random.Int64(), number(), number(), latencies}
		rows, _ := pool.Query(t.Context(), ask, args...)
		want, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[usage.Row])
		if err != nil {
			t.Fatal(err)
		}
		rows, _ = pool.Query(t.Context(), ask, args...)
		got, err := pgx.CollectExactlyOneRow(rows, read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shown(&want), shown(&got)); diff != "" {
			t.Fatalf("row of %v (-pgx +here):\n%s", args, diff)
		}
		wanted, all = append(wanted, shown(&want)), append(all, got)
	}
	// They have memory in common.
	for i := range all {
		if i > 0 {
			all[0].Latencies.Add(&all[i].Latencies)
		}
		if diff := cmp.Diff(wanted[i], shown(&all[i])); i > 0 && diff != "" {
			t.Fatalf("row %d has changed meanwhile (-want +got):\n%s", i, diff)
		}
	}
}

// shown is all that a row holds, as text.
func shown(r *usage.Row) map[string]any {
	parts := map[string]any{
		"slot": r.Slot, "agent": r.Agent, "model": r.Model, "provider": r.Provider, "events": r.Events, "errors": r.Errors,
		"unpriced": r.UnpricedEvents, "count": r.LatencyCount, "max": r.LatencyMaxMS, "cost": r.CostUSD.String(),
		"input": r.InputTokens.String(), "output": r.OutputTokens.String(), "cached": r.CacheReadTokens.String(), "sum": r.LatencySumMS.String(),
	}
	for percent := range int64(101) {
		parts["p"+string(rune('0'+percent))] = r.Latencies.Percentile(percent, 1<<53)
	}
	return parts
}

// A number with decimals is refused, as one that a sum cannot hold.
func TestOnlyWholeNumbersAreRead(t *testing.T) {
	t.Parallel()
	pool := schematest.Database(t).Pool
	for _, number := range []string{"1.5", "NaN", "Infinity", "1e200", "-1.00001"} {
		rows, _ := pool.Query(t.Context(), `SELECT 1, 'a', 'a', 'a', 1, 1, 1, $1::numeric, 1::numeric, 1::numeric, 1::numeric, 1, 1::numeric, 1, 1::numeric`, number)
		if row, err := pgx.CollectExactlyOneRow(rows, usage.RowReader()); err == nil {
			t.Errorf("%s is read as %v", number, row.InputTokens.String())
		}
	}
}

// Events are read from the bytes of the wire as pgx reads them.
func TestEventsAreReadAsPgxDoes(t *testing.T) {
	t.Parallel()
	pool := schematest.Database(t).Pool
	const ask = `SELECT` + usage.SelectEventColumns + ` FROM (VALUES
		(gen_random_uuid(), 'a', 'm', 'p', 'ses_1', true, timestamptz '2026-01-02 03:04:05.678901+00', timestamptz '1999-12-31 00:00:00+00', 'ok',
			'e', 's', 'u', gen_random_uuid(), 1::bigint, 2::bigint, 3::bigint, 4::bigint, 5::bigint, 6::bigint, 7::bigint, 9007199254740991::bigint, 'client', 'x',
			ARRAY['one', '', 'drei "3"', 'ü'], '{"a": [1, null]}'::jsonb, 'key'),
		(gen_random_uuid(), 'ü', '', '', 'ses_2', false, now(), now(), 'error',
			NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, 0, 'unpriced', NULL, NULL, NULL, NULL),
		(gen_random_uuid(), 'b', NULL, NULL, 'ses_3', false, now(), now(), 'ok',
			'', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, -1, 'calculated', '', '{}', '{}', '')
	) AS events (event_id, agent, model, provider, session_id, session_implicit, ts, received_at, status, error_type, step, user_id, parent_event_id,
		input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, latency_ms, cost_nano_usd,
		cost_source, price_id, tags, metadata, idempotency_key) ORDER BY session_id`
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `CREATE TEMP TABLE shown AS `+ask); err != nil {
		t.Fatal(err)
	}
	rows, _ := tx.Query(t.Context(), `SELECT * FROM shown`)
	want, err := pgx.CollectRows(rows, pgx.RowToStructByName[usage.Event])
	if err != nil {
		t.Fatal(err)
	}
	rows, _ = tx.Query(t.Context(), `SELECT * FROM shown`)
	got, err := pgx.CollectRows(rows, usage.ReadEvent)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Errorf("events (-pgx +here):\n%s", diff)
	}
}

// Sessions are read from the bytes of the wire as pgx reads them.
func TestSessionsAreReadAsPgxDoes(t *testing.T) {
	t.Parallel()
	pool := schematest.Database(t).Pool
	const ask = `SELECT * FROM (VALUES
		('ses_1', true, ARRAY['one', '', 'drei "3"'], 1::bigint, 2::bigint, 3::numeric, 4e30::numeric, 5e12::numeric,
			timestamptz '2026-01-02 03:04:05.678901+00', timestamptz '1999-12-31 00:00:00+00', 6e15::numeric),
		('ses_ü', false, '{}', 0, 9007199254740991, 0, 10000, 0, now(), now(), 0)
	) AS sessions (id, implicit, agents, events, errors, input_tokens, output_tokens, cost_usd, started_at, ended_at, sort_key)`
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	rows, _ := tx.Query(t.Context(), ask)
	want, err := pgx.CollectRows(rows, pgx.RowToStructByName[usage.ListedSession])
	if err != nil {
		t.Fatal(err)
	}
	rows, _ = tx.Query(t.Context(), ask)
	got, err := pgx.CollectRows(rows, usage.ReadListedSession)
	if err != nil {
		t.Fatal(err)
	}
	sameSum := cmp.Comparer(func(a, b usage.Sum) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, got, sameSum); diff != "" || len(got) != 2 {
		t.Errorf("sessions (-pgx +here):\n%s", diff)
	}
}
