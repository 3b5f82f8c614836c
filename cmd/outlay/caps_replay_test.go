package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// An event that one replica has recorded is never refused by another when it is sent
// again after the cap was reached: while its key cannot be known it is answered 500,
// within little more than a second, and once it is stored as a duplicate. An event that
// nobody has recorded is refused.
func TestReplayIsNotRefused(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	type result struct {
		EventID   string `json:"event_id"`
		Duplicate bool   `json:"duplicate"`
	}
	send := func(r *replica, key string, into *result) int {
		body := fmt.Sprintf(`{"agent":%q,"cost_usd":%s,"idempotency_key":%q}`, c.scope.Agent, 2*c.limit, key)
		return send(t.Context(), "http://"+r.listen, c.credentials.APIKey, body, into)
	}
	var first, again result
	if status := send(c.replicas[0], "k", &first); status != http.StatusOK {
		t.Fatalf("the event that reaches the cap: %d", status)
	}
	// No processor runs: what is in Kafka is not stored.
	for i, r := range c.replicas[1:] {
		start := time.Now()
		if status := send(r, "k", &again); status != http.StatusInternalServerError {
			t.Errorf("replica %d, before the event is stored: %d, want 500", i+1, status)
		}
		t.Logf("replica %d answers after %v", i+1, time.Since(start))
		if status := send(r, fmt.Sprint("new-", i), &again); status != http.StatusInternalServerError {
			t.Errorf("replica %d, another key: %d, want 500", i+1, status)
		}
	}
	c.startProcessor(t)
	awaitDrained(t, c)
	for i, r := range c.replicas {
		if status := send(r, "k", &again); status != http.StatusOK || !again.Duplicate || again.EventID != first.EventID {
			t.Errorf("replica %d: %d %+v, want 200 and a duplicate of %s", i, status, again, first.EventID)
		}
		if status := send(r, "new", &again); status != http.StatusPaymentRequired {
			t.Errorf("replica %d, a key that nobody has recorded: %d, want 402", i, status)
		}
	}
	var refused, stored int
	const counts = `SELECT (SELECT coalesce(sum(events), 0) FROM refused_events), (SELECT count(*) FROM events)`
	for deadline := time.Now().Add(time.Minute); refused != len(c.replicas); time.Sleep(50 * time.Millisecond) {
		if err := c.pool.QueryRow(t.Context(), counts).Scan(&refused, &stored); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events in the ledger of refused events, want %d", refused, len(c.replicas))
		}
	}
	if stored != 1 {
		t.Errorf("%d events are stored, want 1", stored)
	}
}

// Once a replica has recorded the event that reaches a cap, every other refuses within
// a second what costs nothing, too, with no processor running.
func TestReachedCapOnEveryReplica(t *testing.T) {
	t.Parallel()
	c := newCapped(t)
	post := func(r *replica, rest string) int {
		return send(t.Context(), "http://"+r.listen, c.credentials.APIKey, fmt.Sprintf(`{"agent":%q%s}`, c.scope.Agent, rest), &struct{}{})
	}
	for i, r := range c.replicas {
		if status := post(r, `,"cost_usd":0.001`); status != http.StatusOK {
			t.Fatalf("replica %d: %d", i, status)
		}
	}
	if status := post(c.replicas[0], fmt.Sprintf(`,"cost_usd":%s`, 2*c.limit)); status != http.StatusOK {
		t.Fatalf("the event that reaches the cap: %d", status)
	}
	crossed := time.Now()
	for _, free := range []string{``, `,"cost_usd":0`, `,"model":"no-such-model","input_tokens":5`} {
		if status := post(c.replicas[0], free); status != http.StatusPaymentRequired {
			t.Errorf("the next event (%s) at the same replica: %d", free, status)
		}
	}
	for i, r := range c.replicas[1:] {
		for post(r, ``) == http.StatusOK {
			if since := time.Since(crossed); capFull() && since > time.Second || since > time.Minute {
				t.Fatalf("replica %d lets events through after %v", i+1, since)
			}
		}
		t.Logf("replica %d refuses after %v", i+1, time.Since(crossed))
	}
}
