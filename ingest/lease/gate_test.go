package lease

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

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
	w.tier.Close()
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
