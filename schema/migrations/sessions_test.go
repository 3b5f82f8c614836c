package migrations_test

import (
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// beganImplicitly makes a session for an event that named none, and a second event in
// which the client goes on with it.
const beganImplicitly = `
update events set session_id = 'ses_01ksessk0000000000000000ab', session_implicit = cost_nano_usd = 1 where cost_nano_usd in (1, 2)`

const sessionDifferences = `
with stored as (
    select account_id, session_id, array_agg(distinct agent order by agent) as agents, count(*) as events,
        count(*) filter (where status = 'error') as errors, sum(input_tokens) as input, sum(output_tokens) as output,
        sum(cost_nano_usd) as cost, min(ts), max(ts)
    from events group by account_id, session_id
), listed as (
    select account_id, session_id, agents, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at from sessions
)
select (select count(*) from (table stored except table listed) as d) + (select count(*) from (table listed except table stored) as d)`

// The list of sessions holds what was stored before there was one, and a processor
// of before can store nothing that it would lack.
func TestSessionsStoredBeforeAreListed(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		if db.Edition != migrations.Plain {
			exec(t, conn, `create extension timescaledb`)
		}
		if err := migrations.MigrateTo(t.Context(), conn, db.Edition, 18); err != nil {
			t.Fatal(err)
		}
		var events []testEvent
		for i := range 500 {
			events = append(events, testEvent{At: time.Now().Add(-time.Duration(i) * time.Hour), Account: 1, Agent: string(rune('a' + i%5)), Cost: int64(i % 50)})
		}
		insert(t, conn, events[:3]...)
		exec(t, conn, beganImplicitly)
		insert(t, conn, events[3:]...)
		const store = `select advance_offsets('t', '{}', '{}', '{}')`
		exec(t, conn, store)
		up(t, conn, migrations.Options{})
		if n := one[int](t, conn, sessionDifferences); n != 0 {
			t.Errorf("the list differs from the events in %d rows", n)
		}
		if _, err := conn.Exec(t.Context(), store); err == nil {
			t.Error("a processor of before can still store events")
		}
	})
}
