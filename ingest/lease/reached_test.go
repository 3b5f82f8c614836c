package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// free is what an event without a cost comes to: unpriced, without tokens, or cost_usd 0.
const free schema.NanoUSD = 0

// refuses fails the test unless the cap is reached for an event of this cost.
func (w *world) refuses(g *Gate, cost schema.NanoUSD) {
	w.t.Helper()
	e := w.event(cost)
	var reached *ExceededError
	if _, err := g.Admit(context.Background(), &e); !errors.As(err, &reached) {
		w.t.Errorf("an event of %s: %v, want that the cap is reached (%+v)", cost, err, w.state())
	}
}

// The replica that lets the event through that reaches a cap refuses the next one,
// whatever it costs: also when it had asked for more a moment before, and when the
// event was the first of all.
func TestReachedCapRefusesTheNextEvent(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		for _, costs := range [][]schema.NanoUSD{{2000}, {free, 2000}, {1, free, 2000}, {1000}, {500, 500}, {1, 999}, {free, 1, 998, 1}} {
			for _, agent := range []string{"a", ""} {
				w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 1)
				w.remove()
				w.scope.Agent = agent
				w.put()
				w.reload()
				if w.scope.Agent == "" {
					w.scope.Agent = "one of the account's"
				}
				for _, cost := range costs {
					if !w.admit(t, w.gates[0], cost) {
						t.Fatalf("%v of %v: the event of %d is refused", agent, costs, cost)
					}
				}
				w.refuses(w.gates[0], free)
				w.refuses(w.gates[0], 1)
			}
		}
	})
}

// While one of several requests waits for the grant that lets its event cross the
// cap, others may take of it, and then only what is left of the cap.
func TestGrantThatCrossesIsNotMoreMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 1)
	g := w.gates[0]
	m := (*g.meters.Load())[w.scope]
	_, _, c, mine := m.take(time.Now(), w.now, 2000)
	if !mine {
		t.Fatal("the first event does not ask")
	}
	g.refill(t.Context(), w.scope, m, c)
	let := schema.NanoUSD(0)
	for range 100 {
		if w.admit(t, g, 100) {
			let += 100
		}
	}
	if let != 1000 {
		t.Errorf("let through %d of 1000", let)
	}
}

// A replica that holds a share asks again, before it spends it, once the cap that
// it reads anew says that another has crossed it.
func TestOverdrawnCapIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 2)
		one, two := w.gates[0], w.gates[1]
		if !w.admit(t, one, 1) || !w.admit(t, two, 900) {
			t.Fatal("nothing passes")
		}
		w.reload()
		if !w.admit(t, one, free) || !w.admit(t, one, 1) {
			t.Error("a share is not used while others are as well")
		}
		w.reload()
		w.refuses(two, 1000)
		for _, g := range w.gates {
			g.sweepOnce(t.Context())
			g.sweepOnce(t.Context())
			forget(g)
		}
		if !w.admit(t, one, 1) || !w.admit(t, two, 1000) {
			t.Fatal("nothing passes")
		}
		w.reload()
		w.refuses(one, free)
		w.refuses(one, 1)
	})
}

// A replica that holds a share learns that another has crossed the cap, from the
// database alone, and lets nothing more through, not even what it holds.
func TestReachedCapRefusesOnOtherReplicas(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		for _, agent := range []string{"a", ""} {
			w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 0)
			w.remove()
			w.scope.Agent = agent
			w.put()
			w.scope.Agent = "a"
			one, two := w.runGate(t), w.runGate(t)
			if !w.admit(t, one, 1) || !w.admit(t, two, 1) {
				t.Fatal("nothing passes")
			}
			if !w.admit(t, two, 2000) {
				t.Fatal("the event that crosses the cap is refused")
			}
			crossed := time.Now()
			w.refuses(two, free)
			for w.admit(t, one, free) || w.admit(t, one, 1) {
				if since := time.Since(crossed); since > time.Second {
					t.Fatalf("cap of %q: the other replica lets events through after %v", agent, since)
				}
				time.Sleep(time.Millisecond)
			}
			t.Logf("cap of %q: the other replica refuses after %v", agent, time.Since(crossed))
			// Raising it lets events through again.
			w.scope.Agent, w.limit = agent, 3000
			w.put()
			w.scope.Agent = "a"
			for _, g := range []*Gate{one, two} {
				for raised := time.Now(); !w.admit(t, g, free); time.Sleep(time.Millisecond) {
					if time.Since(raised) > time.Second {
						t.Fatal("a raised cap refuses")
					}
				}
			}
		}
	})
}

// The replica whose share is the last that is used up has to ask about the next event,
// even if it asked a moment before.
func TestLastShareReachesTheCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 2)
	one, two := w.gates[0], w.gates[1]
	for _, e := range []struct {
		by   *Gate
		cost schema.NanoUSD
	}{{one, 1}, {two, 875}, {one, 124}} {
		if !w.admit(t, e.by, e.cost) {
			t.Fatalf("the event of %d is refused", e.cost)
		}
	}
	w.refuses(one, free)
}

// A cap that is lowered below what is spent is reached.
func TestLoweredCapIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 2)
	for _, g := range w.gates {
		if !w.admit(t, g, 10) {
			t.Fatal("nothing passes")
		}
	}
	w.limit = 5
	w.put()
	w.reload()
	for _, g := range w.gates {
		w.refuses(g, free)
		w.refuses(g, 1)
	}
}

// runGate is a replica whose own loops run. It is ready.
func (w *world) runGate(t *testing.T) *Gate {
	t.Helper()
	g := New(Config{OnDatabaseDown: "closed"}, Deps{
		Pool: w.pool, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	for !g.Ready() {
		time.Sleep(time.Millisecond)
	}
	return g
}
