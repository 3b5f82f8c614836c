package processor

import (
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// More money than an int64 of nano-dollars holds, in one quarter of an hour and in
// one batch, is stored like any other: nothing is put aside, spend is the exact sum,
// and a cap is still reached.
func TestRunStoresMoreMoneyThanAnInt64Holds(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		f := fakeFixture(t, db)
		const n = 20_000
		scope := budget.Scope{AccountID: f.account, Agent: "agent"}
		lease := f.capped(t, scope)
		events := f.events(0, n)
		for i := range events {
			e := &events[i]
			e.Agent, e.SessionID, e.Cost, e.Leases = "agent", "ses_one", schema.MaxEventCost, []schema.ID{lease}
			e.ReceivedAt = events[0].ReceivedAt
		}
		f.produce(t, events...)
		f.start(t, func(c *Config) { c.BatchRecords = n })
		f.awaitPositions(t, n)

		const spent = "20000000000000000000"
		for what, sql := range map[string]string{
			"spend of the agent":   `SELECT sum(cost_nano_usd)::text FROM spend WHERE account_id = $1 AND agent = 'agent'`,
			"spend of the account": `SELECT sum(cost_nano_usd)::text FROM spend WHERE account_id = $1 AND agent = ''`,
			"cost of the events":   `SELECT sum(cost_nano_usd)::text FROM events WHERE account_id = $1`,
			"stored of the lease":  `SELECT stored_nano_usd::text FROM budget_leases WHERE account_id = $1`,
			"used of the lease":    `SELECT used_nano_usd::text FROM budget_leases WHERE account_id = $1`,
		} {
			var got string
			if err := db.Pool.QueryRow(t.Context(), sql, f.account).Scan(&got); err != nil || got != spent {
				t.Errorf("%s is %s (%v), want %s", what, got, err, spent)
			}
		}
		var dead int
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM dead_letters WHERE topic = $1`, f.topic).Scan(&dead); err != nil || dead != 0 {
			t.Errorf("%d events were put aside (%v)", dead, err)
		}
		total := (&budget.Budget{Period: budget.Total}).Window(time.Now())
		state, err := budget.NewStore(db.Pool).State(t.Context(), scope, total)
		if err != nil || state.Spent.String() != spent {
			t.Errorf("the cap has spent %v (%v), want %s", state.Spent, err, spent)
		}
		var granted int64
		const ask = `SELECT granted FROM lease_budget($1, $2, $3, $4, 0, $5, $5, 1, 1)`
		err = db.Pool.QueryRow(t.Context(), ask, f.account, scope.Agent, total.Start, total.End, schema.NewID(time.Now())).Scan(&granted)
		if err != nil || granted != 0 {
			t.Errorf("a reached cap grants %d (%v)", granted, err)
		}
	})
}

// capped sets a cap and makes a lease of it.
func (f *fixture) capped(t *testing.T, scope budget.Scope) schema.ID {
	t.Helper()
	err := budget.NewStore(f.db.Pool).Put(t.Context(), budget.Budget{
		Scope: scope, Limit: budget.MaxLimit, Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow,
	})
	if err != nil {
		t.Fatal(err)
	}
	lease, start := schema.NewID(time.Now()), (&budget.Budget{Period: budget.Total}).Window(time.Now()).Start
	const insert = `WITH alive AS (INSERT INTO ingest_replicas (replica_id) VALUES ($1))
		INSERT INTO budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd)
		VALUES ($1, $2, $3, $4, 0, $1, 30000000000000000000)`
	if _, err := f.db.Pool.Exec(t.Context(), insert, lease, scope.AccountID, scope.Agent, start); err != nil {
		t.Fatal(err)
	}
	return lease
}

// awaitPositions waits until n records are processed.
func (f *fixture) awaitPositions(t *testing.T, n int64) {
	t.Helper()
	const sql = `SELECT coalesce(sum(next_offset), 0)::bigint FROM kafka_offsets WHERE topic = $1`
	var got int64
	for deadline := time.Now().Add(patience); got < n; time.Sleep(f.poll) {
		if err := f.db.Pool.QueryRow(t.Context(), sql, f.topic).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records were processed in time, want %d", got, n)
		}
	}
}
