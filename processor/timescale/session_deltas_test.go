package timescale_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// differences compares what the list of sessions adds up to, folded and not,
// with the events themselves.
const differences = `
WITH listed AS (
	SELECT session_id, sum(events) AS events, sum(errors) AS errors, sum(input_tokens) AS input, sum(output_tokens) AS output,
		sum(cost_nano_usd) AS cost, min(started_at) AS started, max(ended_at) AS ended
	FROM (TABLE session_parts UNION ALL SELECT account_id, session_id, agents, users, events, errors, input_tokens, output_tokens,
		cost_nano_usd, started_at, ended_at FROM sessions) AS every GROUP BY session_id
), stored AS (
	SELECT session_id, count(*) AS events, count(*) FILTER (WHERE status = 'error') AS errors, sum(input_tokens) AS input,
		sum(output_tokens) AS output, sum(cost_nano_usd) AS cost, min(ts) AS started, max(ts) AS ended
	FROM events WHERE NOT session_implicit GROUP BY session_id
)
SELECT (SELECT count(*) FROM (TABLE listed EXCEPT TABLE stored) AS d) + (SELECT count(*) FROM (TABLE stored EXCEPT TABLE listed) AS d)`

// What the list of sessions states is what the events add up to, batch after batch,
// with the largest numbers there are, and whatever is folded when. Duplicates and
// dead letters are in neither, and a batch that is tried again adds nothing.
func TestSaveKeepsTheListOfSessions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		sink := newSink(t, db)
		offset := int64(0)
		for range 8 {
			batch := items(offset, 2000)
			for i := range batch {
				e := &batch[i].Event
				e.SessionImplicit = r.IntN(10) == 0
				e.SessionID = fmt.Sprint("ses_", r.IntN(3))
				if e.SessionImplicit {
					e.SessionID = schema.ImplicitSessionID(e.ID)
				}
				e.Agent, e.UserID = fmt.Sprint("agent-", r.IntN(5)), fmt.Sprint("user-", r.IntN(200))
				e.InputTokens, e.Cost = schema.MaxCount, schema.MaxEventCost
				e.Time = e.Time.Add(-time.Duration(r.IntN(3600)) * time.Second)
				if r.IntN(3) == 0 {
					e.Status = schema.StatusError
				}
			}
			for range 50 {
				e := &batch[r.IntN(len(batch))].Event
				e.IdempotencyKey = fmt.Sprint("key-", r.IntN(100))
				e.ID = schema.KeyedEventID(account, e.IdempotencyKey)
				batch[r.IntN(len(batch))].Dead = &timescale.DeadLetter{Reason: timescale.ReasonRefused}
			}
			for _, want := range []error{nil, timescale.ErrFenced} {
				if _, err := sink.Save(t.Context(), span(offset, len(batch)), batch); !errors.Is(err, want) {
					t.Fatal(err)
				}
			}
			offset += int64(len(batch))
			var n int
			if err := db.Pool.QueryRow(t.Context(), differences).Scan(&n); err != nil || n != 0 {
				t.Fatalf("after %d events the list differs from them in %d rows (%v)", offset, n, err)
			}
			if _, err := db.Pool.Exec(t.Context(), `SELECT fold_sessions($1)`, 1+r.IntN(10)); err != nil {
				t.Fatal(err)
			}
		}
		var agents, users int
		const names = `SELECT max(cardinality(agents)), max(cardinality(users)) FROM sessions`
		if err := db.Pool.QueryRow(t.Context(), names).Scan(&agents, &users); err != nil || agents != 5 || users > 100 {
			t.Errorf("sessions have %d agents and %d users (%v), want 5 and 100 at most", agents, users, err)
		}
	})
}
