package lease

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A cap that more was spent of than an int64 of nano-dollars holds is reached, and
// nothing worse.
func TestCapIsReachedFarBeyondAnInt64(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, budget.MaxLimit, 1)
		w.exec(`INSERT INTO spend VALUES ($1, 'a', date_bin('15 min', now(), 'epoch'), 20000000000000000000, 20000)`, w.scope.AccountID)
		g := w.gates[0]
		e := schema.Event{AccountID: w.scope.AccountID, Agent: "a", ReceivedAt: w.now, Cost: schema.MaxEventCost}
		var reached *ExceededError
		if _, err := g.Admit(t.Context(), &e); !errors.As(err, &reached) || reached.Standing.Remaining != 0 {
			t.Errorf("Admit = %v, want that the cap is reached and nothing left", err)
		}
		w.standsAt(g, 0)
	})
}

// Refused events add up without a limit as well, while they wait to be written.
func TestRefusedEventsAddUpFarBeyondAnInt64(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 0, 1)
		g := w.gates[0]
		for range 20_000 {
			g.refused.add(&schema.Event{
				AccountID: w.scope.AccountID, Agent: "a", ReceivedAt: w.now, Cost: schema.MaxEventCost,
				InputTokens: schema.MaxCount, OutputTokens: schema.MaxCount,
			})
		}
		g.refused.putBack(g.refused.take())
		g.writeRefused(t.Context())
		var got string
		const sums = `SELECT concat_ws(' ', sum(events), sum(input_tokens), sum(output_tokens), sum(cost_nano_usd)) FROM refused_events WHERE account_id = $1`
		err := db.Pool.QueryRow(t.Context(), sums, w.scope.AccountID).Scan(&got)
		if want := "20000 180143985094819820000 180143985094819820000 20000000000000000000"; err != nil || got != want {
			t.Errorf("the ledger holds %s (%v), want %s", got, err, want)
		}
	})
}

// A share that was charged with as much as can be told, because the money of
// duplicates came back to it, is closed and another taken.
func TestShareMakesWayBeforeItsChargesOverflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1_000_000, 1)
	g := w.gates[0]
	if !w.admit(t, g, 10) {
		t.Fatal("nothing passes")
	}
	m := (*g.meters.Load())[w.scope]
	full := m.share
	full.charged = math.MaxInt64 - 5
	if !w.admit(t, g, 10) || m.share == full {
		t.Errorf("passed under a share that is full")
	}
	w.exec(`UPDATE budget_leases SET granted_nano_usd = 9300000000000000000, used_nano_usd = 9300000000000000000 WHERE lease_id = $1`, full.id)
	g.sweepOnce(t.Context())
	if m.hasUnsettled() {
		t.Error("the full share was not closed")
	}
}
