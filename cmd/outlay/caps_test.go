package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// capCost is the cost of each event of the cap tests: 0.001 USD.
const capCost schema.NanoUSD = 1_000_000

// capRate is how many requests a second are sent, over three replicas.
const capRate = 2000

// fullCap is the cap of a test at full size: 10 USD.
const fullCap = 10_000 * capCost

// capSeconds is how long load is sent to a capped agent: OUTLAY_E2E_CAP_SECONDS, or
// a number that fits into a CI run.
func capSeconds() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_CAP_SECONDS")); err == nil {
		return n
	}
	return 6
}

// capFull means that the tests of caps run at full size: one after the other, because
// each needs the whole machine, and until even the leases of the dead are back.
func capFull() bool { return capSeconds() >= 60 }

// capped is three ingest replicas, the query tier, a capped agent, and what the
// replicas let through.
type capped struct {
	*installation
	pool     *pgxpool.Pool
	scope    budget.Scope
	limit    schema.NanoUSD
	owner    client
	replicas []*replica

	let, refused, unclear atomic.Int64
}

func newCapped(t *testing.T) *capped {
	t.Helper()
	c := &capped{installation: newInstallation(t)}
	account, err := schema.ParseID(schema.AccountPrefix, c.account)
	if err != nil {
		t.Fatal(err)
	}
	// At most a third of what is sent passes.
	c.scope, c.limit = budget.Scope{AccountID: account, Agent: "capped"}, min(fullCap, schema.NanoUSD(capSeconds()*capRate/3)*capCost)
	if c.pool, err = pgxpool.New(t.Context(), c.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	c.startQuery(t)
	c.owner = signIn(t, c.credentials)
	c.put(t)
	c.replicas = c.newReplicas(t)
	return c
}

const cappedBudget = "/v1/agents/capped/budget"

// put sets the cap as a person does.
func (c *capped) put(t *testing.T) {
	t.Helper()
	body := fmt.Sprintf(`{"limit_usd":%s,"period":"month"}`, c.limit)
	if status := c.owner.call(t, http.MethodPut, cappedBudget, body, &struct{}{}); status != http.StatusOK {
		t.Fatalf("set the cap: status %d", status)
	}
}

// track sends one event of an agent to a replica and returns the status, 0 for
// none.
func (c *capped) track(ctx context.Context, r *replica, agent string) int {
	body := fmt.Sprintf(`{"agent":%q,"cost_usd":%s}`, agent, capCost)
	return send(ctx, "http://"+r.listen, c.credentials.APIKey, body, &struct{}{})
}

// trackCapped sends one event of the capped agent and counts what came of it.
func (c *capped) trackCapped(ctx context.Context, r *replica) int {
	status := c.track(ctx, r, c.scope.Agent)
	switch status {
	case http.StatusOK:
		c.let.Add(1)
	case http.StatusPaymentRequired:
		c.refused.Add(1)
	default:
		c.unclear.Add(1)
	}
	return status
}

// hammer sends capRate requests a second over all replicas.
func (c *capped) hammer(t *testing.T) {
	t.Helper()
	n := int64(capSeconds() * capRate)
	start := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 48 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / capRate)))
				c.trackCapped(t.Context(), c.replicas[i%int64(len(c.replicas))])
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if least := 0.95 * capRate; capFull() && float64(n)/took.Seconds() < least {
		t.Errorf("the load was %.0f requests a second, want at least %.0f", float64(n)/took.Seconds(), least)
	}
	t.Logf("%d requests in %.1f s, %.0f a second: let through %s USD of a cap of %s, refused %d, unclear %d",
		n, took.Seconds(), float64(n)/took.Seconds(), c.letThrough(), c.limit, c.refused.Load(), c.unclear.Load())
}

func (c *capped) letThrough() schema.NanoUSD { return schema.NanoUSD(c.let.Load()) * capCost }

// checkBound fails the test if more than the cap and one event was let through. An
// event without a clear answer may have been; checkRest looks at those.
func (c *capped) checkBound(t *testing.T) {
	t.Helper()
	over := c.letThrough() - c.limit
	t.Logf("overshoot: %s USD, where one event costs %s", max(over, 0), capCost)
	if over > capCost {
		t.Errorf("let through %s of %s", c.letThrough(), c.limit)
	}
}

// checkUsedUp fails the test if money was held back.
func (c *capped) checkUsedUp(t *testing.T) {
	t.Helper()
	if least := c.limit - c.limit/100; c.letThrough() < least {
		t.Errorf("let through %s of %s, want at least %s", c.letThrough(), c.limit, least)
	}
}

// checkRefused fails the test unless every replica refuses the agent.
func (c *capped) checkRefused(t *testing.T, when string) {
	t.Helper()
	for i, r := range c.replicas {
		if status := c.trackCapped(t.Context(), r); status != http.StatusPaymentRequired {
			t.Errorf("%s: replica %d answers %d, want 402", when, i, status)
		}
	}
}

// checkRest waits until all is processed and nothing is leased any more, and compares
// the spend that is shown with the events.
func (c *capped) checkRest(t *testing.T, patience time.Duration) {
	t.Helper()
	awaitDrained(t, c)
	w := (&budget.Budget{Period: budget.Month, Timezone: "UTC"}).Window(time.Now())
	start := time.Now()
	for {
		state, err := budget.NewStore(c.pool).State(t.Context(), c.scope, w)
		if err != nil {
			t.Fatal(err)
		}
		if state.Leased == 0 {
			break
		}
		if time.Since(start) > patience {
			t.Fatalf("%s is still leased %v after the last event", state.Leased, patience)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("nothing is leased %.1f s after the last event was stored", time.Since(start).Seconds())
	c.checkSpend(t)
}

// checkSpend compares the spend that is shown with the stored events, and those with
// what was let through and the cap.
func (c *capped) checkSpend(t *testing.T) {
	t.Helper()
	var stored schema.NanoUSD
	err := c.pool.QueryRow(t.Context(), `SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM events WHERE agent = $1`, c.scope.Agent).Scan(&stored)
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Spent json.Number `json:"spent_usd"`
	}
	for deadline := time.Now().Add(time.Minute); c.owner.call(t, http.MethodGet, cappedBudget, "", &shown) != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("the cap is not shown")
		}
	}
	if shown.Spent.String() != stored.String() || stored < c.letThrough() || stored > c.limit+capCost {
		t.Errorf("shown as spent %s, stored %s, let through %s, cap %s", shown.Spent, stored, c.letThrough(), c.limit)
	}
}

// checkLedger compares the refused events that are kept with those that were. Each
// replica writes them down once a second.
func (c *capped) checkLedger(t *testing.T) {
	t.Helper()
	want := c.refused.Load()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var refused int64
		if err := c.pool.QueryRow(t.Context(), `SELECT coalesce(sum(events), 0)::bigint FROM refused_events`).Scan(&refused); err != nil {
			t.Fatal(err)
		}
		if refused == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d refused events in the ledger, want %d", refused, want)
		}
	}
}

// awaitDrained waits until everything in Kafka is stored.
func awaitDrained(t *testing.T, c *capped) {
	t.Helper()
	sent := time.Now()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var complete time.Time
		if err := c.pool.QueryRow(t.Context(), `SELECT min(complete_until) FROM kafka_offsets`).Scan(&complete); err == nil && complete.After(sent) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not everything was stored in time")
		}
	}
}
