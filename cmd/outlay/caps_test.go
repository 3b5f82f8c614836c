package main

import (
	"context"
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

// capSeconds is how long load is sent to a capped agent.
func capSeconds() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_CAP_SECONDS")); err == nil {
		return n
	}
	return 6
}

// capRate is how many requests a second are sent, over three replicas.
const capRate = 2000

// capped is three ingest replicas, a capped agent, and what they let through.
type capped struct {
	*installation
	pool     *pgxpool.Pool
	scope    budget.Scope
	limit    schema.NanoUSD
	replicas []*replica

	let, refused, unclear atomic.Int64
}

// replica is an ingest process that can be killed and started again.
type replica struct {
	*running
	mu          sync.Mutex
	listen, ops string
}

func newCapped(t *testing.T) *capped {
	t.Helper()
	c := &capped{installation: newInstallation(t)}
	account, err := schema.ParseID(schema.AccountPrefix, c.account)
	if err != nil {
		t.Fatal(err)
	}
	// About a third of what is sent passes.
	c.scope, c.limit = budget.Scope{AccountID: account, Agent: "capped"}, schema.NanoUSD(capSeconds()*capRate/3)*capCost
	if c.pool, err = pgxpool.New(t.Context(), c.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	c.put(t)
	for range 3 {
		r := &replica{listen: freeAddress(t), ops: freeAddress(t)}
		c.startReplica(t, r)
		c.replicas = append(c.replicas, r)
	}
	return c
}

func (c *capped) startReplica(t *testing.T, r *replica) {
	t.Helper()
	p := launch(t, "ingest", append([]string{"ingest", "--database-url", c.databaseURL, "--listen", r.listen, "--ops-listen", r.ops}, c.kafka...)...)
	p.awaitReady(t, r.ops)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = p
}

func (c *capped) put(t *testing.T) {
	t.Helper()
	err := budget.NewStore(c.pool).Put(t.Context(), budget.Budget{
		Scope: c.scope, Limit: c.limit, Period: budget.Month, Timezone: "UTC", OnUnpriced: budget.Allow,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// track sends one event of an agent to a replica and returns the status, 0 for
// none.
func (c *capped) track(ctx context.Context, r *replica, agent string) int {
	body := fmt.Sprintf(`{"agent":%q,"cost_usd":%s}`, agent, capCost)
	return send(ctx, "http://"+r.listen, c.credentials.APIKey, body, &struct{}{})
}

// hammer sends capRate requests a second over all replicas.
func (c *capped) hammer(t *testing.T, d time.Duration) {
	t.Helper()
	n := int64(d.Seconds() * capRate)
	start := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 48 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / capRate)))
				switch c.track(t.Context(), c.replicas[i%int64(len(c.replicas))], c.scope.Agent) {
				case http.StatusOK:
					c.let.Add(1)
				case http.StatusPaymentRequired:
					c.refused.Add(1)
				default:
					c.unclear.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("in %.1f s: let through %s USD of a cap of %s, refused %d, unclear %d",
		time.Since(start).Seconds(), c.letThrough(), c.limit, c.refused.Load(), c.unclear.Load())
}

func (c *capped) letThrough() schema.NanoUSD { return schema.NanoUSD(c.let.Load()) * capCost }

// checkBound fails the test if more than the cap and one event was let through. An
// event without a clear answer may have been.
func (c *capped) checkBound(t *testing.T) {
	t.Helper()
	over := c.letThrough() - c.limit
	t.Logf("overshoot: %s USD, where one event costs %s", max(over, 0), capCost)
	if over > capCost {
		t.Errorf("let through %s of %s", c.letThrough(), c.limit)
	}
}

// checkRest waits until all is processed and compares spend with the events.
func (c *capped) checkRest(t *testing.T) {
	t.Helper()
	w := (&budget.Budget{Period: budget.Month, Timezone: "UTC"}).Window(time.Now())
	var state budget.State
	var stored schema.NanoUSD
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if state, err = budget.NewStore(c.pool).State(t.Context(), c.scope, w); err != nil {
			t.Fatal(err)
		}
		err = c.pool.QueryRow(t.Context(), `SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM events WHERE agent = $1`, c.scope.Agent).Scan(&stored)
		if err != nil {
			t.Fatal(err)
		}
		if stored >= c.letThrough() && state.Leased == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not at rest: stored %s, let through %s, leased %s", stored, c.letThrough(), state.Leased)
		}
	}
	if state.Spent != schema.SumOf(stored) || stored > c.limit+capCost {
		t.Errorf("spent %s nano-dollars, stored %d, cap %d", state.Spent, stored, c.limit)
	}
	// The ledger is written once a second.
	time.Sleep(2 * time.Second)
	var refused int64
	if err := c.pool.QueryRow(t.Context(), `SELECT coalesce(sum(events), 0)::bigint FROM refused_events`).Scan(&refused); err != nil {
		t.Fatal(err)
	}
	if want := c.refused.Load(); refused != want {
		t.Errorf("%d refused events in the ledger, want %d", refused, want)
	}
}

// Three replicas let through the cap and at most one event more, and hold nothing
// of it back; spend is the sum of what is stored and nothing stays leased.
func TestCapAcrossReplicas(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	c.startProcessor(t)
	c.hammer(t, time.Duration(capSeconds())*time.Second)
	c.checkBound(t)
	if least := c.limit - c.limit/100; c.letThrough() < least {
		t.Errorf("let through %s of %s, want at least %s", c.letThrough(), c.limit, least)
	}
	c.checkRest(t)

	// Started anew, everything still knows.
	for _, r := range c.replicas {
		r.stop(t)
		c.startReplica(t, r)
		if status := c.track(t.Context(), r, c.scope.Agent); status != http.StatusPaymentRequired {
			t.Errorf("after a restart: status %d, want 402", status)
		}
	}
	// A raised cap lets events through on every replica within a second.
	c.limit += 1000 * capCost
	c.put(t)
	raised := time.Now()
	for _, r := range c.replicas {
		for c.track(t.Context(), r, c.scope.Agent) != http.StatusOK {
			if time.Since(raised) > time.Second {
				t.Fatal("a raised cap refuses for more than a second")
			}
		}
	}
	t.Logf("a raised cap lets through on all replicas after %v", time.Since(raised).Round(time.Millisecond))
}

// The same with the processor stopped all the time, so that no event is stored,
// and with a replica killed half-way.
func TestCapWithoutProcessorAndWithAKill(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	go func() {
		time.Sleep(time.Duration(capSeconds()) * time.Second / 6)
		r := c.replicas[1]
		r.mu.Lock()
		r.kill()
		r.mu.Unlock()
	}()
	c.hammer(t, time.Duration(capSeconds())*time.Second)
	c.startReplica(t, c.replicas[1])
	c.checkBound(t)
	for _, r := range c.replicas {
		if status := c.track(t.Context(), r, c.scope.Agent); status == http.StatusOK {
			c.let.Add(1)
		}
	}
	c.checkBound(t)
}

// With the database away an uncapped agent is served, and a capped one is
// answered 500 once the share in hand is used up.
func TestCapWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	r := c.replicas[0]
	if status := c.track(t.Context(), r, c.scope.Agent); status != http.StatusOK {
		t.Fatalf("status %d, want 200", status)
	}
	c.stopDatabase(t)
	if status := c.track(t.Context(), r, "uncapped"); status != http.StatusOK {
		t.Errorf("uncapped: status %d, want 200", status)
	}
	for range 100_000 {
		if status := c.track(t.Context(), r, c.scope.Agent); status == http.StatusInternalServerError {
			return
		} else if status != http.StatusOK {
			t.Fatalf("status %d, want 200 and then 500", status)
		}
	}
	t.Error("the share in hand does not end")
}

// However often and wherever a key is sent, with replicas and processors killed
// in between: one event, and always the same id.
func TestKeysAcrossReplicas(t *testing.T) {
	t.Parallel()
	const keys, tries = 200, 10
	c := newCapped(t)
	c.startQuery(t)
	processor := c.startProcessor(t)
	var mu sync.Mutex
	ids := map[int]map[string]bool{}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < keys*tries; i = next.Add(1) - 1 {
				key := int(i % keys)
				for attempt := 0; ; attempt++ {
					var answer struct {
						EventID string `json:"event_id"`
					}
					base := "http://" + c.replicas[(int(i)+attempt)%3].listen
					status := send(t.Context(), base, c.credentials.APIKey, fmt.Sprintf(`{"agent":"keyed","cost_usd":0.001,"idempotency_key":"key-%d"}`, key), &answer)
					if status == http.StatusOK {
						mu.Lock()
						if ids[key] == nil {
							ids[key] = map[string]bool{}
						}
						ids[key][answer.EventID] = true
						mu.Unlock()
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	for round := range 4 {
		time.Sleep(400 * time.Millisecond)
		r := c.replicas[round%3]
		r.kill()
		processor.kill()
		processor = c.startProcessor(t)
		c.startReplica(t, r)
	}
	wg.Wait()
	distinct := map[string]bool{}
	for key, set := range ids {
		if len(set) != 1 {
			t.Errorf("key %d was answered with %d ids", key, len(set))
		}
		for id := range set {
			distinct[id] = true
		}
	}
	if len(ids) != keys || len(distinct) != keys {
		t.Errorf("%d keys, %d ids, want %d of each", len(ids), len(distinct), keys)
	}
	var stored, different int
	for deadline := time.Now().Add(60 * time.Second); stored < keys && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		err := c.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT event_id) FROM events WHERE agent = 'keyed'`).Scan(&stored, &different)
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitDrained(t, c)
	if err := c.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT event_id) FROM events WHERE agent = 'keyed'`).Scan(&stored, &different); err != nil {
		t.Fatal(err)
	}
	if stored != keys || different != keys {
		t.Errorf("%d events stored, %d different, want %d", stored, different, keys)
	}
}

// awaitDrained waits until everything in Kafka is stored.
func awaitDrained(t *testing.T, c *capped) {
	t.Helper()
	sent := time.Now()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var complete time.Time
		if err := c.pool.QueryRow(t.Context(), `SELECT min(complete_until) FROM kafka_offsets`).Scan(&complete); err == nil && complete.After(sent) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not everything was stored in time")
		}
	}
}
