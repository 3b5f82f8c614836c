package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
)

// heldCaps counts what is charged. Events of the agent "held" wait in it until
// release is closed, those of "capped" are refused.
type heldCaps struct {
	noCaps
	charged atomic.Int64
	entered chan struct{}
	release chan struct{}
}

func newHeldCaps() *heldCaps {
	return &heldCaps{entered: make(chan struct{}, 100), release: make(chan struct{})}
}

func (c *heldCaps) Admit(_ context.Context, e *schema.Event) (*lease.Charge, error) {
	switch e.Agent {
	case "held":
		c.entered <- struct{}{}
		<-c.release
	case "capped":
		return nil, &lease.ExceededError{}
	}
	c.charged.Add(1)
	return nil, nil
}

// results are the outcomes of a batch.
func (a answer) results(t *testing.T) []map[string]any {
	t.Helper()
	list, _ := a.body["results"].([]any)
	results := make([]map[string]any, len(list))
	for i := range list {
		results[i] = list[i].(map[string]any)
	}
	return results
}

// A new key that comes twice in one batch is one event: it is charged and written
// once, and the second is answered as a duplicate of the first.
func TestKeyTwiceInOneBatch(t *testing.T) {
	t.Parallel()
	caps := newHeldCaps()
	f := newFixtureWithCaps(t, caps)
	const event = `{"agent":"a","model":"gpt-4o","input_tokens":1000,"idempotency_key":"k"}`
	r := f.post(t, "/v1/track/batch", `[`+event+`,{"agent":"b"},`+event+`,{"agent":"other","idempotency_key":"k"}]`)
	results := r.results(t)
	if r.status != 207 || len(results) != 4 || fmt.Sprint(r.body["accepted"]) != "3" {
		t.Fatalf("%d %v", r.status, r.body)
	}
	first, second, other := results[0], results[2], results[3]
	if first["duplicate"] != false || second["duplicate"] != true {
		t.Errorf("duplicate: %v and %v, want false and true", first["duplicate"], second["duplicate"])
	}
	for _, field := range []string{"event_id", "cost_usd", "price_id", "session_id", "provider"} {
		if fmt.Sprint(first[field]) != fmt.Sprint(second[field]) {
			t.Errorf("%s: %v and %v", field, first[field], second[field])
		}
	}
	if fmt.Sprint(other["status"]) != "422" || !names(other["errors"], "idempotency_key") {
		t.Errorf("another event with the key: %v", other)
	}
	if n := caps.charged.Load(); n != 2 {
		t.Errorf("%d events were charged, want 2", n)
	}
	if n := f.metric(t, "outlay_ingest_events_duplicate_total"); n != 1 {
		t.Errorf("duplicates counter = %v, want 1", n)
	}
	if r := f.post(t, "/v1/track", `{"agent":"marker"}`); r.status != 200 {
		t.Fatal(r)
	}
	if events := f.events(t, 3); len(events) != 3 {
		t.Errorf("%d events in Kafka, want 3", len(events))
	}
}

// Requests with one new key that come at once are one event: those that come while
// the first is judged or on its way wait for what comes of it.
func TestKeyInConcurrentRequests(t *testing.T) {
	t.Parallel()
	caps := newHeldCaps()
	f := newFixtureWithCaps(t, caps)
	const body = `{"agent":"held","model":"gpt-4o","input_tokens":1000,"idempotency_key":"k"}`
	answers := make(chan answer, 5)
	var wg sync.WaitGroup
	defer wg.Wait()
	post := func(path, body string) { wg.Go(func() { answers <- f.post(t, path, body) }) }
	post("/v1/track", body)
	<-caps.entered
	for range 3 {
		post("/v1/track", body)
	}
	post("/v1/track/batch", `[`+body+`]`)
	awaitWaiting(t, f, 4)
	if r := f.post(t, "/v1/track", `{"agent":"held","idempotency_key":"k"}`); r.status != 422 || !names(r.body["errors"], "idempotency_key") {
		t.Errorf("another event with the key: %d %v", r.status, r.body)
	}
	close(caps.release)
	ids, duplicates := map[any]bool{}, 0
	for range 5 {
		r := <-answers
		if results := r.results(t); len(results) == 1 {
			r.body = results[0]
		}
		if r.status != 200 || fmt.Sprint(r.body["cost_usd"]) != "0.0025" {
			t.Errorf("%d %v", r.status, r.body)
		}
		ids[r.body["event_id"]] = true
		if r.body["duplicate"] == true {
			duplicates++
		}
	}
	if len(ids) != 1 || duplicates != 4 {
		t.Errorf("%d ids, %d duplicates, want 1 and 4", len(ids), duplicates)
	}
	if n := caps.charged.Load(); n != 1 {
		t.Errorf("%d events were charged, want 1", n)
	}
	checkNothingInFlight(t, f)
}

// Two batches that each hold a key which the other began with do not wait for each
// other for ever.
func TestKeysCrossedInConcurrentBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	keyed := func(key int) string { return fmt.Sprintf(`{"agent":"a","idempotency_key":"k%d"}`, key) }
	var up, down []string
	for key := range 300 {
		up, down = append(up, keyed(key)), append(down, keyed(299-key))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			list := up
			if i%2 == 0 {
				list = down
			}
			if r := f.post(t, "/v1/track/batch", `[`+strings.Join(list, ",")+`]`); r.status != 200 {
				t.Errorf("%d %v", r.status, r.body)
			}
		})
	}
	wg.Wait()
	if n := f.metric(t, "outlay_ingest_events_accepted_total"); n != 300 {
		t.Errorf("%v events were recorded, want 300", n)
	}
	checkNothingInFlight(t, f)
}

// A key is free again once its event was refused, and those who waited for it are
// answered as it was.
func TestKeyOfARefusedEventIsFreeAgain(t *testing.T) {
	t.Parallel()
	f := newFixtureWith(t, func(c *Config, d *Deps) { c.ProduceTimeout, d.Caps = 3*time.Second, newHeldCaps() })
	for range 2 {
		if r := f.post(t, "/v1/track", `{"agent":"capped","idempotency_key":"k"}`); r.status != 402 {
			t.Errorf("over the cap: %d %v", r.status, r.body)
		}
		if r := f.post(t, "/v1/track", `{"agent":"a","timestamp":"2020-01-01T00:00:00Z","idempotency_key":"k"}`); r.status != 422 {
			t.Errorf("too old: %d %v", r.status, r.body)
		}
	}
	// Within one batch it is not, until all of its refused events have been looked at.
	r := f.post(t, "/v1/track/batch", `[{"agent":"capped","idempotency_key":"k"},{"agent":"capped","idempotency_key":"k"},{"agent":"a","idempotency_key":"k"}]`)
	for i, want := range []string{"402", "402", "422"} {
		if got := fmt.Sprint(r.results(t)[i]["status"]); got != want {
			t.Errorf("event %d of the batch: %s, want %s", i, got, want)
		}
	}
	if r := f.post(t, "/v1/track", `{"agent":"a","idempotency_key":"k"}`); r.status != 200 {
		t.Errorf("the key of a refused event: %d %v", r.status, r.body)
	}
	checkNothingInFlight(t, f)
	// Kafka does not answer: nobody knows, first or not.
	f.cluster.Close()
	r = f.post(t, "/v1/track/batch", `[{"agent":"a","idempotency_key":"l"},{"agent":"a","idempotency_key":"l"}]`)
	for _, result := range r.results(t) {
		if fmt.Sprint(result["status"]) != "500" {
			t.Errorf("without Kafka: %v", result)
		}
	}
}

// awaitWaiting waits until n events wait for others with the same key.
func awaitWaiting(t *testing.T, f *fixture, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, waiting := f.ingest.recorder.InFlight()
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events wait, want %d", waiting, n)
		}
	}
}

func checkNothingInFlight(t *testing.T, f *fixture) {
	t.Helper()
	if n, _ := f.ingest.recorder.InFlight(); n != 0 {
		t.Errorf("%d keys are left in flight", n)
	}
}
