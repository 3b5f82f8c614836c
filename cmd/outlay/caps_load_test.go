package main

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// capTest runs beside other tests unless it has full size.
func capTest(t *testing.T) *capped {
	t.Helper()
	if !capFull() {
		t.Parallel()
	}
	return newCapped(t)
}

// Three replicas let through the cap and at most one event more, and hold nothing
// of it back; spend is the sum of what is stored, nothing stays leased, and after a
// restart of everything the agent is still refused.
func TestCapAcrossReplicas(t *testing.T) {
	c := capTest(t)
	processor := c.startProcessor(t)
	c.hammer(t)
	c.checkBound(t)
	c.checkUsedUp(t)
	c.checkRefused(t, "afterwards")
	c.checkRest(t, time.Minute)
	c.checkLedger(t)

	for _, r := range c.replicas {
		r.stop(t)
	}
	processor.stop(t)
	c.stopDatabase(t)
	c.startDatabase(t)
	c.pool.Reset()
	c.startProcessor(t)
	for _, r := range c.replicas {
		r.start(t)
	}
	c.checkRefused(t, "after a restart of everything")
	c.checkSpend(t)
}

// The same while no processor runs, so that nothing is stored: what is on its way
// counts, also after a restart, and is stored when there is a processor again.
func TestCapWithoutProcessor(t *testing.T) {
	c := capTest(t)
	c.hammer(t)
	c.checkBound(t)
	c.checkUsedUp(t)
	for _, r := range c.replicas {
		r.stop(t)
		r.start(t)
	}
	c.checkRefused(t, "after a restart, with nothing stored")
	c.startProcessor(t)
	c.checkRest(t, time.Minute)
	c.checkBound(t)
	c.checkRefused(t, "when all is stored")
}

// The same with a replica killed while money is left, and another half-way. What a
// killed replica holds comes back when it is certain that nothing is on its way; even
// then no more than the cap passes.
func TestCapWithKills(t *testing.T) {
	c := capTest(t)
	c.startProcessor(t)
	halfway := time.Now().Add(time.Duration(capSeconds()) * time.Second / 2)
	var load sync.WaitGroup
	load.Go(func() { c.hammer(t) })
	for c.letThrough() < c.limit/2 && time.Now().Before(halfway) {
		time.Sleep(time.Millisecond)
	}
	t.Logf("replica 1 is killed after %s USD", c.letThrough())
	c.replicas[1].killAndRestart(t)
	time.Sleep(time.Until(halfway))
	c.replicas[2].killAndRestart(t)
	load.Wait()
	c.checkBound(t)
	awaitDrained(t, c)
	c.checkSpend(t)
	if !capFull() {
		return
	}
	c.checkRest(t, 4*time.Minute)
	for range 2000 {
		c.trackCapped(t.Context(), c.replicas[0])
	}
	c.checkBound(t)
	c.checkRest(t, time.Minute)
}

// Raising, resetting and removing a cap lets events through on every replica; at full
// size within a second.
func TestCapChangesReachReplicas(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	c.startProcessor(t)
	c.limit = 100 * capCost
	c.put(t)
	c.exhaust(t)
	c.limit += 100 * capCost
	c.put(t)
	c.answers(t, "raised", http.StatusOK)
	c.exhaust(t)
	if status := c.owner.call(t, http.MethodPost, cappedBudget+"/reset", "", &struct{}{}); status != http.StatusOK {
		t.Fatalf("reset: status %d", status)
	}
	c.answers(t, "reset", http.StatusOK)
	c.exhaust(t)
	if status := c.owner.call(t, http.MethodDelete, cappedBudget, "", &struct{}{}); status != http.StatusNoContent {
		t.Fatalf("remove: status %d", status)
	}
	c.answers(t, "removed", http.StatusOK)
	c.put(t)
	c.answers(t, "set again", http.StatusPaymentRequired)
}

// exhaust sends events until every replica refuses them.
func (c *capped) exhaust(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for refusals := 0; refusals < 3*len(c.replicas); {
		for _, r := range c.replicas {
			if c.track(t.Context(), r, c.scope.Agent) == http.StatusPaymentRequired {
				refusals++
			} else {
				refusals = 0
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the cap does not end")
		}
	}
}

// answers waits until every replica answers so. Where the machine is ours it must not
// take longer than a second.
func (c *capped) answers(t *testing.T, name string, want int) {
	t.Helper()
	start, d := time.Now(), time.Minute
	if capFull() {
		d = time.Second
	}
	for i, r := range c.replicas {
		for c.track(t.Context(), r, c.scope.Agent) != want {
			if time.Since(start) > d {
				t.Errorf("a cap that was %s: replica %d does not answer %d within %v", name, i, want, d)
				break
			}
		}
	}
	t.Logf("a cap that was %s: every replica answers %d after %v", name, want, time.Since(start).Round(time.Millisecond))
}

// With the database away an uncapped agent is served, and a capped one is
// answered 500 once the share in hand is used up.
func TestCapWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	for _, r := range c.replicas {
		if status := c.track(t.Context(), r, c.scope.Agent); status != http.StatusOK {
			t.Fatalf("status %d, want 200", status)
		}
	}
	c.stopDatabase(t)
	for i, r := range c.replicas {
		if status := c.track(t.Context(), r, "uncapped"); status != http.StatusOK {
			t.Errorf("uncapped at replica %d: status %d, want 200", i, status)
		}
		shared := 0
		for c.track(t.Context(), r, c.scope.Agent) == http.StatusOK {
			if shared++; shared > int(c.limit/capCost) {
				t.Fatal("the share in hand does not end")
			}
		}
		if status := c.track(t.Context(), r, c.scope.Agent); status != http.StatusInternalServerError {
			t.Errorf("replica %d, whose share of %d events is used up: status %d, want 500", i, shared, status)
		}
		if status := c.track(t.Context(), r, "uncapped"); status != http.StatusOK {
			t.Errorf("uncapped at replica %d: status %d, want 200", i, status)
		}
	}
	c.startDatabase(t)
}
