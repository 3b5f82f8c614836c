package lease

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// standsAt fails the test unless a replica says that this is left.
func (w *world) standsAt(g *Gate, want schema.NanoUSD) {
	w.t.Helper()
	s, ok, err := g.Standing(w.t.Context(), w.scope)
	if err != nil || !ok || s.Remaining != want {
		w.t.Fatalf("Standing = %s, %v, %v, want %s", s.Remaining, ok, err, want)
	}
}

// What is left is the cap without what is spent, on its way, or held by other
// replicas; what this one holds is left. Asking changes nothing.
func TestStandingIsWhatThisReplicaWouldLetThrough(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 800, 2)
		one, two := w.gates[0], w.gates[1]
		w.standsAt(one, 800)
		if !w.admit(t, one, 10) {
			t.Fatal("nothing passes")
		}
		held := w.state().Leased
		w.standsAt(one, 790)
		w.standsAt(two, 800-held)
		if got := w.state().Leased; got != held {
			t.Errorf("asking moved what is leased from %s to %s", held, got)
		}
		one.sweepOnce(t.Context())
		one.sweepOnce(t.Context())
		w.standsAt(two, 790)
		for two.sweepOnce(t.Context()); w.admit(t, two, 100); forget(two) {
		}
		w.standsAt(two, 0)
		w.standsAt(one, 0)
		// A raised cap is told before this replica has heard of it.
		w.limit = 5000
		w.put()
		if s, _, err := one.Standing(t.Context(), w.scope); err != nil || s.Budget.Limit != 5000 || s.Remaining < 4000 {
			t.Errorf("after a raise: %+v, %v", s, err)
		}
		w.reset()
		w.standsAt(one, 5000)
		// A cap that is gone is told at once, too.
		w.exec(`DELETE FROM budgets WHERE account_id = $1`, w.scope.AccountID)
		if _, ok, err := one.Standing(t.Context(), w.scope); ok || err != nil {
			t.Errorf("a removed cap: %v, %v", ok, err)
		}
	})
}

// With the database away the replica goes by what it was told last; a cap that it
// never leased from is unknown, unless the operator would rather let through.
func TestStandingWithDatabaseAway(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 800, 1)
	w.scope.Agent = ""
	w.put()
	w.reload()
	w.scope.Agent = "a"
	g := w.gates[0]
	if !w.admit(t, g, 10) {
		t.Fatal("nothing passes")
	}
	fresh := w.newGate()
	w.tier.Close()
	w.standsAt(g, 790)
	if _, ok, err := fresh.Standing(t.Context(), w.scope); !errors.Is(err, ErrUnknown) {
		t.Errorf("a replica that knows nothing: %v, %v, want ErrUnknown", ok, err)
	}
	fresh.cfg.OnDatabaseDown = "open"
	w.standsAt(fresh, 800)
	if _, ok, err := g.Standing(t.Context(), budget.Scope{AccountID: w.scope.AccountID, Agent: "uncapped"}); ok || err != nil {
		t.Errorf("uncapped: %v, %v, want no cap", ok, err)
	}
	if _, _, err := new(Gate).Standing(t.Context(), w.scope); !errors.Is(err, ErrUnknown) {
		t.Errorf("before the caps were loaded: %v, want ErrUnknown", err)
	}
}
