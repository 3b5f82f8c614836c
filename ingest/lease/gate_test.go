package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// world is several ingest replicas, a Kafka and a processor around one capped
// agent, of which every step is made by hand: replicas admit, crash and sweep,
// records lie in Kafka for any time, the processor stores them in order.
type world struct {
	t       testing.TB
	r       *rand.Rand
	pool    *pgxpool.Pool
	scope   budget.Scope
	limit   schema.NanoUSD
	gates   []*Gate
	kafka   []schema.Event // written and not stored
	keys    map[string]bool
	largest schema.NanoUSD
	// admitted is the cost of all events let through since the last reset, each
	// key once.
	admitted schema.NanoUSD
	// highest is the highest that limit was since the last reset.
	highest schema.NanoUSD
	now     time.Time
}

func newWorld(t testing.TB, r *rand.Rand, pool *pgxpool.Pool, limit schema.NanoUSD, replicas int) *world {
	t.Helper()
	w := &world{
		t: t, r: r, pool: pool, limit: limit, highest: limit, keys: map[string]bool{},
		scope: budget.Scope{AccountID: schema.NewID(time.Now()), Agent: "a"},
		now:   time.Now().UTC().Truncate(time.Microsecond),
	}
	w.exec(`INSERT INTO accounts (id, name) VALUES ($1, 'test')`, w.scope.AccountID)
	w.put()
	for range replicas {
		w.gates = append(w.gates, w.newGate())
	}
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put() {
	w.t.Helper()
	err := budget.NewStore(w.pool).Put(context.Background(), budget.Budget{
		Scope: w.scope, Limit: w.limit, Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// newGate is a replica that has started: its loops are made by hand.
func (w *world) newGate() *Gate {
	w.t.Helper()
	g := New(Config{OnDatabaseDown: "closed"}, Deps{
		Pool: w.pool, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	w.alive(g)
	if err := g.load(context.Background(), w.pool); err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) alive(g *Gate) {
	w.t.Helper()
	if err := g.bank.beat(context.Background(), *g.replica.Load()); err != nil {
		w.t.Fatal(err)
	}
	g.validUntil.Store(int64(time.Since(g.started) + validFor))
}

// forget makes the gate ask again instead of trusting its last "no".
func forget(g *Gate) {
	for _, m := range *g.meters.Load() {
		m.mu.Lock()
		m.exceededUntil, m.openUntil, m.lastRefill = time.Time{}, time.Time{}, time.Time{}
		m.mu.Unlock()
	}
}

// track is one request: it returns whether the event was let through.
func (w *world) track(g *Gate, cost schema.NanoUSD, key string) bool {
	w.t.Helper()
	e := schema.Event{
		ID: schema.NewID(w.now), AccountID: w.scope.AccountID, Agent: w.scope.Agent, SessionID: "ses_s",
		Time: w.now, ReceivedAt: w.now, Cost: cost, Source: schema.CostCalculated, IdempotencyKey: key,
	}
	charge, err := g.Admit(context.Background(), &e)
	var reached *ExceededError
	switch {
	case errors.As(err, &reached):
		return false
	case err != nil:
		w.t.Fatal(err)
	}
	switch w.r.IntN(20) {
	case 0:
		charge.Refund() // surely not written
		return true
	case 1:
		charge.Taint() // nobody knows; it was not written
		return true
	case 2:
		charge.Taint() // nobody knows; it was written
	}
	w.kafka = append(w.kafka, e)
	w.largest = max(w.largest, cost)
	if key == "" || !w.keys[key] {
		w.admitted += cost
	}
	if key != "" {
		w.keys[key] = true
	}
	if w.admitted > w.highest+w.largest {
		w.t.Fatalf("let through %s with a cap of %s and no event above %s", w.admitted, w.highest, w.largest)
	}
	return true
}

// store is the processor: it takes n records and does to the database what the
// sink does.
func (w *world) store(n int) {
	w.t.Helper()
	n = min(n, len(w.kafka))
	for _, e := range w.kafka[:n] {
		for _, lease := range e.Leases {
			w.exec(`UPDATE budget_leases SET used_nano_usd = used_nano_usd + $2 WHERE lease_id = $1`, lease, int64(e.Cost))
		}
		// What follows is left out for a duplicate.
		if e.IdempotencyKey != "" {
			tag, err := w.pool.Exec(context.Background(), `INSERT INTO event_keys (account_id, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
				e.AccountID, schema.KeyedEventID(e.AccountID, e.IdempotencyKey))
			if err != nil {
				w.t.Fatal(err)
			}
			if tag.RowsAffected() == 0 {
				continue
			}
		}
		for _, lease := range e.Leases {
			w.exec(`UPDATE budget_leases SET stored_nano_usd = stored_nano_usd + $2 WHERE lease_id = $1`, lease, int64(e.Cost))
		}
		w.exec(`INSERT INTO spend AS s VALUES ($1, $2, $3, $4, 1) ON CONFLICT (account_id, agent, bucket)
			DO UPDATE SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + 1`,
			e.AccountID, e.Agent, e.ReceivedAt.Truncate(15*time.Minute), int64(e.Cost))
	}
	w.kafka = w.kafka[n:]
}

// bury is what the processor does about replicas that are gone, once it has
// stored all that they have written.
func (w *world) bury(replica schema.ID) {
	w.t.Helper()
	w.store(len(w.kafka))
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases WHERE replica_id = $1))`, replica)
}

// settled drops closed leases that hold nothing, as the processor does all the time.
func (w *world) settled() {
	w.t.Helper()
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases
		WHERE account_id = $1 AND closed_at IS NOT NULL AND granted_nano_usd - returned_nano_usd - used_nano_usd <= 0))`, w.scope.AccountID)
}

func (w *world) state() budget.State {
	w.t.Helper()
	s, err := budget.NewStore(w.pool).State(context.Background(), w.scope, (&budget.Budget{Period: budget.Total}).Window(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// step does one random thing.
func (w *world) step() {
	r := w.r
	g := w.gates[r.IntN(len(w.gates))]
	switch n := r.IntN(100); {
	case n < 60:
		key := ""
		if r.IntN(3) == 0 {
			key = fmt.Sprint("key-", r.IntN(20))
		}
		cost := schema.NanoUSD(r.IntN(40))
		if key != "" {
			cost = 17 // the same key, the same event
		}
		w.track(g, cost, key)
	case n < 75:
		w.store(r.IntN(8))
	case n < 85:
		g.sweepOnce(context.Background())
	case n < 88:
		forget(g)
	case n < 90:
		w.settled()
	case n < 93: // killed and started again; much later its shares are taken back
		i := r.IntN(len(w.gates))
		dead := *w.gates[i].replica.Load()
		w.gates[i] = w.newGate()
		if r.IntN(2) == 0 {
			w.bury(dead)
		}
	case n < 95: // drained and started again
		i := r.IntN(len(w.gates))
		w.gates[i].close(context.Background())
		w.gates[i] = w.newGate()
	case n < 98:
		w.limit += schema.NanoUSD(r.IntN(200))
		w.highest = max(w.highest, w.limit)
		w.put()
		w.reload()
	default:
		w.reset()
	}
}

func (w *world) reload() {
	w.t.Helper()
	for _, g := range w.gates {
		if err := g.load(context.Background(), w.pool); err != nil {
			w.t.Fatal(err)
		}
	}
}

// reset starts from zero. Replicas hear of it before the next step here; that one
// which has not heard yet spends shares of before is TestResetReachesReplicas'.
func (w *world) reset() {
	w.t.Helper()
	win := (&budget.Budget{Period: budget.Total}).Window(w.now)
	if err := budget.NewStore(w.pool).Reset(context.Background(), w.scope, win, nil); err != nil {
		w.t.Fatal(err)
	}
	w.reload()
	w.admitted, w.highest, w.largest = 0, w.limit, 0
	if s := w.state(); s.Spent != (schema.Sum{}) || s.Leased != 0 {
		w.t.Fatalf("after a reset: spent %s, leased %s", s.Spent, s.Leased)
	}
}

// TestBoundHoldsInAnyOrder is the guarantee: whatever replicas, Kafka and the
// processor do in whatever order, what is let through since the last reset is at
// most the cap plus one event; and once everything is stored, spent is the sum of
// what is stored, and nothing stays leased. OUTLAY_SEEDS says how many orders.
func TestBoundHoldsInAnyOrder(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("OUTLAY_SEEDS"))
	if err != nil {
		seeds = 100
	}
	db := schematest.Database(t)
	var most schema.NanoUSD
	for seed := range seeds {
		over := oneOrder(t, db.Pool, uint64(seed))
		most = max(most, over)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d orders: let through at most %s USD above the cap, where one event costs up to 0.000000039 USD", seeds, most)
}

// oneOrder returns how far above the cap it got.
func oneOrder(t *testing.T, pool *pgxpool.Pool, seed uint64) schema.NanoUSD {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, r, pool, schema.NanoUSD(100+r.IntN(2000)), 1+r.IntN(4))
	var most schema.NanoUSD
	for range 150 {
		w.step()
		most = max(most, w.admitted-w.highest)
	}
	// Rest: everything is given back and stored, the dead are buried.
	for _, g := range w.gates {
		g.close(context.Background())
	}
	w.store(len(w.kafka))
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases WHERE account_id = $1 AND closed_at IS NULL))`, w.scope.AccountID)
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases WHERE account_id = $1))`, w.scope.AccountID)
	s := w.state()
	if s.Leased != 0 {
		t.Errorf("leased at rest: %s", s.Leased)
	}
	if s.Spent != schema.SumOf(w.admitted) {
		t.Errorf("spent %s nano-dollars at rest, let through %d", s.Spent, w.admitted)
	}
	return most
}

// While nothing is killed, no money is held back: whatever replica an event comes
// to, it passes until the cap is used up.
func TestAllOfACapCanBeSpent(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 10_000_000_000, 3)
	const cost = 1_000_000
	spent := schema.NanoUSD(0)
	refusals := 0
	for i := 0; refusals < 2*len(w.gates); i++ {
		g := w.gates[i%len(w.gates)]
		e := schema.Event{AccountID: w.scope.AccountID, Agent: w.scope.Agent, ReceivedAt: w.now, Cost: cost, Source: schema.CostCalculated}
		_, err := g.Admit(t.Context(), &e)
		if err == nil {
			spent += cost
			refusals = 0
			continue
		}
		// What others do not use comes back within two sweeps.
		refusals++
		for range 2 {
			for _, g := range w.gates {
				g.sweepOnce(t.Context())
				forget(g)
			}
		}
	}
	if spent < w.limit || spent > w.limit+cost {
		t.Errorf("let through %s of %s", spent, w.limit)
	}
}

// A replica that has not heard of a reset spends the shares it has; that money
// was granted under the cap of before and counts there.
func TestResetReachesReplicas(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1_000, 2)
	win := (&budget.Budget{Period: budget.Total}).Window(w.now)
	for w.admit(t, w.gates[0], 10) {
	}
	if err := budget.NewStore(db.Pool).Reset(t.Context(), w.scope, win, nil); err != nil {
		t.Fatal(err)
	}
	forget(w.gates[0])
	if !w.admit(t, w.gates[0], 10) {
		t.Error("after a reset nothing passes on a replica that asks")
	}
	if s := w.state(); s.Spent != (schema.Sum{}) {
		t.Errorf("spent after a reset: %s", s.Spent)
	}
}

func (w *world) admit(t *testing.T, g *Gate, cost schema.NanoUSD) bool {
	t.Helper()
	e := schema.Event{AccountID: w.scope.AccountID, Agent: w.scope.Agent, ReceivedAt: w.now, Cost: cost, Source: schema.CostCalculated}
	_, err := g.Admit(t.Context(), &e)
	return err == nil
}

// With the database away an uncapped agent is not touched, and a capped one is
// served from the share in hand and then nobody knows.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1_000_000_000_000, 1)
	g := w.gates[0]
	if !w.admit(t, g, 10) {
		t.Fatal("nothing passes")
	}
	db.Pool.Close()
	passed := 0
	for w.admit(t, g, 100_000) {
		passed++
	}
	if passed == 0 {
		t.Error("the share in hand is not used")
	}
	e := schema.Event{AccountID: w.scope.AccountID, Agent: w.scope.Agent, ReceivedAt: w.now, Cost: 1_000_000_000}
	if _, err := g.Admit(t.Context(), &e); !errors.Is(err, ErrUnknown) {
		t.Errorf("with the share used up: %v, want ErrUnknown", err)
	}
	e.Agent = "uncapped"
	if charge, err := g.Admit(t.Context(), &e); err != nil || charge != nil {
		t.Errorf("uncapped: %v, %v, want it to pass", charge, err)
	}
	g.cfg.OnDatabaseDown = "open"
	e.Agent = w.scope.Agent
	if _, err := g.Admit(t.Context(), &e); err != nil {
		t.Errorf("open: %v, want it to pass", err)
	}
}

// A cap on the account holds for agents without one of their own, and an event
// that only one of two caps allows is charged to neither.
func TestAccountCap(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1_000_000, 1)
	w.scope.Agent = ""
	w.limit = 50
	w.put()
	w.reload()
	g := w.gates[0]
	passed := 0
	for _, agent := range []string{"a", "b", "c"} {
		for range 10 {
			e := schema.Event{AccountID: w.scope.AccountID, Agent: agent, ReceivedAt: w.now, Cost: 10}
			if _, err := g.Admit(t.Context(), &e); err == nil {
				passed++
			}
		}
	}
	if passed != 5 {
		t.Errorf("%d events of 10 passed with an account cap of 50, want 5", passed)
	}
}
