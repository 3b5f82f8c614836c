package ingest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// reachedCaps refuse every event, and count what is kept as refused.
type reachedCaps struct {
	noCaps
	mu   sync.Mutex
	kept []string // idempotency keys
}

func (c *reachedCaps) Admit(context.Context, *schema.Event) (*lease.Charge, error) {
	return nil, &lease.ExceededError{}
}

func (c *reachedCaps) Known(context.Context, budget.Scope) (lease.Standing, bool) {
	return lease.Standing{Budget: budget.Budget{Limit: dollar, Period: budget.Total}, Spent: 2 * dollar}, true
}

func (c *reachedCaps) Refused(e *schema.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, e.IdempotencyKey)
}

// answeredReplays knows what a test says of the keys of an account.
type answeredReplays struct {
	answers map[replay.Key]replay.Answer
	asked   int
}

func (r *answeredReplays) Check(_ context.Context, keys []replay.Key) []replay.Answer {
	r.asked++
	answers := make([]replay.Answer, len(keys))
	for i, k := range keys {
		answers[i] = r.answers[k]
	}
	return answers
}

// An event that a reached cap refuses and that another replica has recorded is
// answered as a duplicate; one of which nobody knows is answered 500, to be sent again;
// and only one that is not recorded 402, which alone is kept as refused. All events of
// a batch are looked at together.
func TestRefusedEventIsNotRecorded(t *testing.T) {
	t.Parallel()
	caps := &reachedCaps{}
	replays := &answeredReplays{answers: map[replay.Key]replay.Answer{}}
	f := newFixtureWith(t, func(_ *Config, d *Deps) { d.Caps, d.Replays = caps, replays })
	id := func(key string) schema.ID { return schema.KeyedEventID(f.account, key) }
	for key, answer := range map[string]replay.Answer{"stored": replay.Recorded, "new": replay.Unrecorded, "unclear": replay.Unknown} {
		replays.answers[replay.Key{Account: f.account, Event: id(key)}] = answer
	}
	event := func(key string) string {
		return fmt.Sprintf(`{"agent":"a","model":"gpt-4o","input_tokens":1000,"idempotency_key":%q}`, key)
	}
	r := f.post(t, "/v1/track/batch", fmt.Sprintf(`[%s,%s,%s,{"agent":"a"},%[1]s,%[2]s]`, event("stored"), event("new"), event("unclear")))
	results := r.results(t)
	for i, want := range []string{"200", "402", "500", "402", "200", "402"} {
		if got := fmt.Sprint(results[i]["status"]); got != want {
			t.Errorf("event %d of the batch: %s, want %s", i, got, want)
		}
	}
	if replays.asked != 1 {
		t.Errorf("a batch asked %d times", replays.asked)
	}
	if got := fmt.Sprint(caps.kept); len(caps.kept) != 2 {
		t.Errorf("kept as refused: %s", got)
	}
	stored := results[0]
	if stored["duplicate"] != true || stored["event_id"] != id("stored").Text(schema.EventPrefix) || fmt.Sprint(stored["cost_usd"]) != "0.0025" || stored["budget"] == nil {
		t.Errorf("the replay is answered %v", stored)
	}
	checkNothingInFlight(t, f)

	// What is known to be recorded is answered from memory from then on.
	if r := f.post(t, "/v1/track", event("stored")); r.status != http.StatusOK || r.body["duplicate"] != true || replays.asked != 1 {
		t.Errorf("sent again: %d %v, asked %d times", r.status, r.body, replays.asked)
	}
	if r := f.post(t, "/v1/track", event("unclear")); r.status != http.StatusInternalServerError || r.header.Get("Retry-After") == "" {
		t.Errorf("unclear: %d %v", r.status, r.header)
	}
	if r := f.post(t, "/v1/track", event("new")); r.status != http.StatusPaymentRequired {
		t.Errorf("new: %d", r.status)
	}
	if r := f.post(t, "/v1/track", `{"agent":"a"}`); r.status != http.StatusPaymentRequired || replays.asked != 3 {
		t.Errorf("without a key: %d, asked %d times", r.status, replays.asked)
	}
	checkNothingInFlight(t, f)
}
