package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// world is several ingest replicas, a Kafka and a processor around one agent and
// its cap, of which every step is made by hand: replicas admit, crash and sweep,
// records lie in Kafka for any time, the processor stores them in order.
type world struct {
	t     testing.TB
	r     *rand.Rand
	pool  *pgxpool.Pool
	tier  *pgxpool.Pool // signed in as ingest is
	scope budget.Scope
	// limit, period and zone are the cap as it is set; capped says whether it is.
	limit  schema.NanoUSD
	period budget.Period
	zone   string
	capped bool
	gates  []*Gate
	kafka  []schema.Event // written and not stored
	// read is how many records the processor has read. late are the events that were written long after they arrived.
	read     int64
	late     map[schema.ID]bool
	inFlight []inFlight
	dead     []schema.ID // replicas
	// passed are the events that were let through and written, each key once.
	passed []passage
	keys   map[string]bool
	// largest is the cost of the largest of them since the last reset.
	largest schema.NanoUSD
	// highest is what may have passed in the present period but for the event that
	// crosses it. unseen is the part of it that nobody could know of: it came while
	// there was no cap, and was not stored when there was one again.
	highest, unseen schema.NanoUSD
	now             time.Time
	// admitted are all that were let through, also what was not written and what came
	// twice.
	admitted []passage
	resets   int
	// shown is what each replica answered last as spent, and of which period.
	shown map[*Gate]shown
}

type shown struct {
	window budget.Window
	spent  schema.NanoUSD
}

// passage is an event that was let through.
type passage struct {
	id   schema.ID
	at   time.Time
	cost schema.NanoUSD
	// forgiven says that a reset has taken it out of what counts.
	forgiven bool
	// by is the replica that let it through under a cap.
	by *Gate
}

func newWorld(t testing.TB, r *rand.Rand, pool *pgxpool.Pool, limit schema.NanoUSD, replicas int) *world {
	t.Helper()
	w := &world{
		t: t, r: r, pool: pool, tier: schematest.As(t, pool, "outlay_ingest"), limit: limit, period: budget.Total, zone: "UTC", highest: limit, keys: map[string]bool{}, late: map[schema.ID]bool{}, shown: map[*Gate]shown{},
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

// put sets the cap. Replicas do not hear of it.
func (w *world) put() {
	w.t.Helper()
	err := budget.NewStore(w.pool).Put(context.Background(), budget.Budget{
		Scope: w.scope, Limit: w.limit, Period: w.period, Timezone: w.zone, OnUnpriced: budget.Allow,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.capped = true
}

// remove removes the cap. Replicas do not hear of it.
func (w *world) remove() {
	w.t.Helper()
	if err := budget.NewStore(w.pool).Delete(context.Background(), w.scope); err != nil {
		w.t.Fatal(err)
	}
	w.capped = false
	// A cap that is set again is another one.
	clear(w.shown)
	for i := range w.passed {
		w.passed[i].by = nil
	}
}

// reload lets every replica hear of what changed.
func (w *world) reload() {
	w.t.Helper()
	for _, g := range w.gates {
		if err := g.load(context.Background(), w.pool); err != nil {
			w.t.Fatal(err)
		}
	}
}

// window is the present period of the cap.
func (w *world) window() budget.Window {
	return (&budget.Budget{Period: w.period, Timezone: w.zone}).Window(w.now)
}

// newGate is a replica that has started: its loops are made by hand.
func (w *world) newGate() *Gate {
	w.t.Helper()
	g := New(Config{OnDatabaseDown: "closed"}, Deps{
		Pool: w.tier, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	g.times.ValidFor = time.Hour // No test takes so long, on any machine.
	g.bank.timeout = time.Minute // A busy machine is not one whose database is away.
	w.alive(g)
	if err := g.load(context.Background(), w.pool); err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) alive(g *Gate) {
	w.t.Helper()
	if err := g.heartbeat(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// forget makes the gate ask again instead of trusting its last "no".
func forget(g *Gate) {
	for _, m := range *g.meters.Load() {
		m.mu.Lock()
		m.exceededUntil, m.openUntil, m.lastRefill = time.Time{}, time.Time{}, time.Time{}
		m.mu.Unlock()
	}
}

// event is one of the agent that arrives now.
func (w *world) event(cost schema.NanoUSD) schema.Event {
	return schema.Event{
		ID: schema.NewID(w.now), AccountID: w.scope.AccountID, Agent: w.scope.Agent, SessionID: "ses_s",
		Time: w.now, ReceivedAt: w.now, Cost: cost, Source: schema.CostCalculated,
	}
}

// admit is an event that is let through, or not, and that Kafka has at once.
func (w *world) admit(t *testing.T, g *Gate, cost schema.NanoUSD) bool {
	t.Helper()
	e := w.event(cost)
	charge, err := g.Admit(t.Context(), &e)
	charge.Confirm()
	return err == nil
}

// track is one request: it returns whether the event was let through.
func (w *world) track(g *Gate, cost schema.NanoUSD, key string) bool {
	w.t.Helper()
	e := w.event(cost)
	e.IdempotencyKey = key
	charge, err := g.Admit(context.Background(), &e)
	var reached *ExceededError
	switch {
	case errors.As(err, &reached):
		return false
	case errors.Is(err, ErrUnknown): // The machine is so busy that the database did not answer in time.
		return false
	case err != nil:
		w.t.Fatal(err)
	}
	w.admitted = append(w.admitted, passage{at: e.ReceivedAt, cost: cost})
	w.checkShown(g, charge)
	switch w.r.IntN(20) {
	case 0:
		charge.Refund() // surely not written
		return true
	case 1:
		charge.Taint() // nobody knows; it was not written
		return true
	case 2:
		charge.Taint() // nobody knows; it was written
	case 3, 4, 5:
		if len(e.Leases) > 0 {
			w.inFlight = append(w.inFlight, inFlight{event: e, charge: charge, gate: g})
			return true
		}
		charge.Confirm()
	default:
		charge.Confirm()
	}
	w.write(e)
	if charge != nil && len(w.passed) > 0 && w.passed[len(w.passed)-1].id == e.ID {
		w.passed[len(w.passed)-1].by = g
	}
	w.checkBound()
	return true
}

// checkBound fails the test if more than the cap and one event was let through and is not refused.
func (w *world) checkBound() {
	w.t.Helper()
	if spent := w.spent(); w.capped && spent > w.highest+w.largest {
		w.t.Fatalf("let through %s with a cap of %s and no event above %s", spent, w.highest, w.largest)
	}
}

// checkShown fails the test unless the answer to an event that was let through shows as
// spent no less than this replica has recorded and has shown before, and no more than
// was ever let through: no share that is not used up.
func (w *world) checkShown(g *Gate, charge *Charge) {
	w.t.Helper()
	s, ok := charge.Standing()
	if !ok {
		return
	}
	window := w.window()
	if before := w.shown[g]; before.window == window && s.Spent < before.spent {
		w.t.Fatalf("%s is shown as spent after %s was", s.Spent, before.spent)
	}
	w.shown[g] = shown{window, s.Spent}
	least, most := schema.NanoUSD(0), schema.NanoUSD(0)
	for _, p := range w.passed {
		if p.by == g && !p.forgiven && window.Contains(p.at) {
			least += p.cost
		}
	}
	for _, p := range w.admitted {
		if window.Contains(p.at) {
			most += p.cost
		}
	}
	if s.Spent < least || w.resets == 0 && s.Spent > most || s.Budget.Limit != w.limit {
		w.t.Fatalf("%s of %s is shown as spent, want at least %s, at most %s, of %s", s.Spent, s.Budget.Limit, least, most, w.limit)
	}
}

// write puts an event that was let through into Kafka.
func (w *world) write(e schema.Event) {
	w.kafka = append(w.kafka, e)
	w.largest = max(w.largest, e.Cost)
	if e.IdempotencyKey != "" && w.keys[e.IdempotencyKey] {
		return
	}
	if e.IdempotencyKey != "" {
		w.keys[e.IdempotencyKey] = true
	}
	w.passed = append(w.passed, passage{id: e.ID, at: e.ReceivedAt, cost: e.Cost})
}

// spent is what was let through in the present period and counts.
func (w *world) spent() (sum schema.NanoUSD) {
	window := w.window()
	for _, p := range w.passed {
		if !p.forgiven && window.Contains(p.at) {
			sum += p.cost
		}
	}
	return sum
}

// store is the processor: it takes n records and does to the database what the
// sink does.
func (w *world) store(n int) {
	w.t.Helper()
	n = min(n, len(w.kafka))
	for i := range w.kafka[:n] {
		w.save(&w.kafka[i])
		w.read++
	}
	w.kafka = w.kafka[n:]
}

func (w *world) save(e *schema.Event) {
	w.t.Helper()
	for _, lease := range e.Leases {
		w.exec(`UPDATE budget_leases SET used_nano_usd = used_nano_usd + $2 WHERE lease_id = $1`, lease, int64(e.Cost))
	}
	if w.late[e.ID] && w.refusesLate(e, w.read) {
		return
	}
	// What follows is left out for a duplicate.
	if e.IdempotencyKey != "" {
		tag, err := w.pool.Exec(context.Background(), `INSERT INTO event_keys (account_id, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			e.AccountID, schema.KeyedEventID(e.AccountID, e.IdempotencyKey))
		if err != nil {
			w.t.Fatal(err)
		}
		if tag.RowsAffected() == 0 {
			return
		}
	}
	for _, lease := range e.Leases {
		w.exec(`UPDATE budget_leases SET stored_nano_usd = stored_nano_usd + $2 WHERE lease_id = $1`, lease, int64(e.Cost))
	}
	w.exec(`INSERT INTO spend AS s (account_id, agent, bucket, cost_nano_usd, events) VALUES ($1, $2, $3, $4, 1)
		ON CONFLICT (account_id, agent, bucket)
		DO UPDATE SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + 1`,
		e.AccountID, e.Agent, e.ReceivedAt.Truncate(15*time.Minute), int64(e.Cost))
}

// bury is what the processor does about replicas that are gone, once it has
// stored all that they have written.
func (w *world) bury(replica schema.ID) {
	w.t.Helper()
	w.die(replica)
	w.upkeep()
	w.store(len(w.kafka))
	w.upkeep()
}

// settled drops closed leases that hold nothing, as the processor does all the time.
func (w *world) settled() {
	w.t.Helper()
	w.exec(`SELECT drop_leases(array(SELECT lease_id FROM budget_leases
		WHERE account_id = $1 AND closed_at IS NOT NULL AND granted_nano_usd - returned_nano_usd - used_nano_usd <= 0))`, w.scope.AccountID)
}

func (w *world) state() budget.State {
	w.t.Helper()
	s, err := budget.NewStore(w.pool).State(context.Background(), w.scope, w.window())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
