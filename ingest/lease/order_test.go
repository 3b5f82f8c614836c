package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// step does one random thing.
func (w *world) step() {
	r := w.r
	g := w.gates[r.IntN(len(w.gates))]
	switch n := r.IntN(100); {
	case n < 3:
		w.land()
	case n < 4:
		w.giveUp()
	case n < 5:
		w.silence(g)
	case n < 7:
		w.upkeep()
	case n < 9:
		w.alive(g)
	case n < 58:
		w.trackAny(g)
		w.checkReached()
	case n < 72:
		w.store(r.IntN(8))
	case n < 82:
		g.sweepOnce(context.Background())
	case n < 85:
		forget(g)
	case n < 87:
		w.settled()
	case n < 90: // killed and started again; much later its shares are taken back
		i := r.IntN(len(w.gates))
		dead := w.gates[i].replica.Load().id
		w.gates[i] = w.newGate()
		if r.IntN(2) == 0 {
			w.bury(dead)
		}
	case n < 92: // drained and started again
		i := r.IntN(len(w.gates))
		w.gates[i].close(context.Background())
		w.gates[i] = w.newGate()
	case n < 94:
		w.raise()
	case n < 96:
		w.pass(time.Duration(1+r.IntN(40)) * time.Minute)
	case n < 97:
		w.pass(time.Duration(1+r.IntN(40)) * time.Hour)
	case n < 98:
		w.changePeriod()
	case n < 99:
		w.removeOrPut()
	default:
		w.reset()
	}
}

// checkReached fails the test if the cap is reached and a replica that has heard of it
// lets anything through, even what costs nothing. Of what came under no lease and is
// not stored nobody can know.
func (w *world) checkReached() {
	w.t.Helper()
	known, window := w.spent(), w.window()
	for _, e := range w.kafka {
		if len(e.Leases) == 0 && window.Contains(e.ReceivedAt) {
			known -= e.Cost
		}
	}
	if !w.capped || known < w.limit {
		return
	}
	w.reload()
	for _, g := range w.gates {
		forget(g)
		e := w.event(0)
		if _, err := g.Admit(context.Background(), &e); err == nil {
			w.t.Fatalf("%s of %s is spent, and an event without cost passes", known, w.limit)
		}
	}
}

// trackAny sends an event with or without a key that was sent before.
func (w *world) trackAny(g *Gate) {
	w.t.Helper()
	if w.r.IntN(3) == 0 {
		w.track(g, 17, fmt.Sprint("key-", w.r.IntN(20))) // the same key, the same event
		return
	}
	w.track(g, schema.NanoUSD(w.r.IntN(40)), "")
}

func (w *world) raise() {
	w.t.Helper()
	if !w.capped {
		return
	}
	w.limit += schema.NanoUSD(w.r.IntN(200))
	w.highest = max(w.highest, w.limit+w.unseen)
	w.put()
	w.reload()
}

// pass lets time go by. A new period may be spent anew.
func (w *world) pass(d time.Duration) {
	before := w.window()
	w.now = w.now.Add(d)
	if w.window() != before {
		w.highest, w.largest, w.unseen = w.limit, 0, 0
	}
}

// periods and zones are those that a cap changes between.
var (
	periods = []budget.Period{budget.Day, budget.Week, budget.Month, budget.Total}
	zones   = []string{"UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"}
)

// changePeriod gives the cap another period and time zone. What was let through in
// that before cannot be taken back.
func (w *world) changePeriod() {
	w.t.Helper()
	if !w.capped {
		return
	}
	w.period, w.zone = periods[w.r.IntN(len(periods))], zones[w.r.IntN(len(zones))]
	w.put()
	w.reload()
	w.highest = max(w.limit, w.spent()+w.leasedInFlight()) + w.unseen
}

// removeOrPut removes the cap or sets it again. What came in between and is not
// stored yet came under no lease, so nobody can know it.
func (w *world) removeOrPut() {
	w.t.Helper()
	if w.capped {
		w.remove()
	} else {
		w.put()
		w.lookAway()
		w.highest = max(w.limit, w.spent()+w.leasedInFlight()) + w.unseen
	}
	w.reload()
}

// lookAway notes the cost of what came under no lease and is not stored yet.
func (w *world) lookAway() {
	w.unseen = 0
	for _, e := range w.kafka {
		if len(e.Leases) == 0 {
			w.unseen += e.Cost
		}
	}
}

// reset starts from zero. Replicas hear of it before the next step here; that one
// which has not heard yet spends shares of before is TestResetReachesReplicas'.
func (w *world) reset() {
	w.t.Helper()
	if !w.capped {
		return
	}
	if err := budget.NewStore(w.pool).Reset(context.Background(), w.scope, w.window(), nil); err != nil {
		w.t.Fatal(err)
	}
	w.reload()
	w.forgive()
	w.resets++
	clear(w.shown)
	w.lookAway()
	w.highest, w.largest = w.limit+w.unseen, 0
	if s := w.state(); s.Spent != (schema.Sum{}) || s.Leased != 0 {
		w.t.Fatalf("after a reset: spent %s, leased %s", s.Spent, s.Leased)
	}
}

// forgive takes out what counts no more after a reset: all that was let through in
// the period, but what came under no lease and is not stored yet.
func (w *world) forgive() {
	unknown := map[schema.ID]bool{}
	for _, e := range w.kafka {
		unknown[e.ID] = len(e.Leases) == 0
	}
	window := w.window()
	for i := range w.passed {
		p := &w.passed[i]
		p.forgiven = p.forgiven || window.Contains(p.at) && !unknown[p.id]
	}
	for i := range w.inFlight {
		f := &w.inFlight[i]
		f.forgiven = f.forgiven || window.Contains(f.event.ReceivedAt)
	}
}

// TestBoundHoldsInAnyOrder is the guarantee: whatever replicas, Kafka, the
// processor and people do in whatever order, what is let through in a period since
// its last reset is at most the cap plus one event; and once everything is stored,
// spent is the sum of what is stored, and nothing stays leased. OUTLAY_SEEDS says
// how many orders, OUTLAY_FIRST_SEED where they start.
func TestBoundHoldsInAnyOrder(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("OUTLAY_SEEDS"))
	if err != nil {
		seeds = 100
	}
	first, _ := strconv.Atoi(os.Getenv("OUTLAY_FIRST_SEED"))
	db := schematest.Database(t)
	var most schema.NanoUSD
	for seed := first; seed < first+seeds; seed++ {
		over := oneOrder(t, db.Pool, uint64(seed))
		most = max(most, over)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d orders: let through at most %s USD above the cap, where one event costs up to 0.000000039 USD", seeds, most)
}

// oneOrder returns how far above the cap it got.
func oneOrder(t *testing.T, pool *pgxpool.Pool, seed uint64) schema.NanoUSD {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, r, pool, schema.NanoUSD(100+r.IntN(2000)), 1+r.IntN(4))
	// Any time of any day, the same one for the same seed; the future knows no month
	// that is over.
	w.now = time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(90 * 24 * time.Hour)))).Truncate(time.Microsecond)
	var most schema.NanoUSD
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for range 150 {
		w.step()
		if w.capped {
			most = max(most, w.spent()-w.highest)
		}
	}
	// Rest: everything lands, is given back and stored, the dead are buried.
	for len(w.inFlight) > 0 {
		w.land()
	}
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
	if spent := w.spent(); s.Spent != schema.SumOf(spent) {
		t.Errorf("spent %s nano-dollars at rest, let through %d", s.Spent, spent)
	}
	return most
}
