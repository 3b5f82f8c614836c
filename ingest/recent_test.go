package ingest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
)

// A retry that this replica knows is answered as the first was, says so, and is
// not written again: alone, in a batch, with the key in body or header, and
// however it is spelt.
func TestRetryIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const fields = `"agent":"a","model":"gpt-4o","provider":"OpenAI","input_tokens":1000,"output_tokens":10,"tags":["x"],"metadata":{"a":1}`
	first := f.post(t, "/v1/track", `{`+fields+`,"idempotency_key":"k"}`)
	if first.status != 200 || first.body["duplicate"] != false {
		t.Fatalf("first: %d %v", first.status, first.body)
	}
	want := first.body
	want["duplicate"] = true
	for name, body := range map[string]string{
		"same":        `{` + fields + `,"idempotency_key":"k"}`,
		"other order": `{"idempotency_key":"k","output_tokens":10,` + `"metadata":{"a":1},"tags":["x"],"agent":" a ","prompt_tokens":1e3,"model":"gpt-4o","provider":"OpenAI"}`,
		"nulls":       `{"agent":"a","model":"gpt-4o","provider":"OpenAI","tags":["x"],"metadata":{"a":1},"idempotency_key":"k","cache_read_tokens":null,"input_tokens":1000,"output_tokens":10}`,
	} {
		r := f.post(t, "/v1/track", body)
		if diff := cmp.Diff(want, r.body); r.status != 200 || diff != "" {
			t.Errorf("%s: status %d, answer differs (-want +got):\n%s", name, r.status, diff)
		}
	}
	if r := f.post(t, "/v1/events", `{`+fields+`}`, "Idempotency-Key", "k"); r.status != 200 || r.body["duplicate"] != true {
		t.Errorf("key in the header: %d %v", r.status, r.body)
	}
	r := f.post(t, "/v1/track/batch", `[{`+fields+`,"idempotency_key":"k"},{"agent":"marker"}]`)
	results, _ := r.body["results"].([]any)
	if r.status != 200 || len(results) != 2 || results[0].(map[string]any)["duplicate"] != true || results[0].(map[string]any)["event_id"] != want["event_id"] {
		t.Errorf("in a batch: %d %v", r.status, r.body)
	}
	if events := f.events(t, 2); len(events) != 2 {
		t.Errorf("%d events in Kafka, want the first and the marker", len(events))
	}
	if n := testutil.ToFloat64(f.ingest.metrics.duplicates); n != 5 {
		t.Errorf("duplicates counter = %v, want 5", n)
	}
	if n := testutil.ToFloat64(f.ingest.metrics.accepted); n != 2 {
		t.Errorf("accepted counter = %v, want 2", n)
	}
}

// A key that comes back with another event is refused, and told.
func TestKeyUsedForAnotherEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if r := f.post(t, "/v1/track", `{"agent":"a","idempotency_key":"k"}`); r.status != 200 {
		t.Fatal(r)
	}
	for _, fields := range []string{
		`"agent":"b"`, `"agent":"a","model":"m"`, `"agent":"a","cost_usd":0`, `"agent":"a","input_tokens":0`, `"agent":"a","metadata":{}`,
		`"agent":"a","tags":["t"]`, `"agent":"a","step":"s"`, `"agent":"a","status":"error"`, `"agent":"a","latency_ms":0`,
		`"agent":"a","timestamp":"` + time.Now().UTC().Format(time.RFC3339) + `"`,
	} {
		r := f.post(t, "/v1/track", `{`+fields+`,"idempotency_key":"k"}`)
		if r.status != 422 || r.body["code"] != "validation_error" || !names(r.body["errors"], "idempotency_key") {
			t.Errorf("%s: %d %v, want 422 that names idempotency_key", fields, r.status, r.body)
		}
	}
}

// A key is known only once Kafka has the event: what was not acknowledged is
// written again.
func TestUnacknowledgedKeyIsNotKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.ProduceTimeout = 200 * time.Millisecond })
	f.cluster.Close()
	for range 2 {
		if r := f.post(t, "/v1/track", `{"agent":"a","idempotency_key":"k"}`); r.status != 500 {
			t.Fatalf("status %d, want 500 both times", r.status)
		}
	}
	if n := f.ingest.recent.entries(); n != 0 {
		t.Errorf("%d keys are known that Kafka has not acknowledged", n)
	}
}

// keyed is an event with an idempotency key that was acknowledged.
func keyed(n int) admission {
	account := schema.ID{15: 1}
	key := fmt.Sprint("key ", n)
	id := schema.KeyedEventID(account, key)
	return admission{
		event:  &schema.Event{ID: id, IdempotencyKey: key, Cost: schema.NanoUSD(n)},
		flight: &flight{id: id, fingerprint: uint64(n)},
	}
}

// What is remembered is bounded, the latest stays, and a day later all is forgotten.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	r := newRecent(1000, func() time.Time { return at })
	for n := range 20_000 {
		at = at.Add(time.Second)
		r.land(keyed(n), nil)
	}
	if n := r.entries(); n != 1000 {
		t.Errorf("%d keys held, want 1000", n)
	}
	found := 0
	for n := 19_500; n < 20_000; n++ {
		if m := r.find(keyed(n).event.ID); m != nil && m.cost == schema.NanoUSD(n) {
			found++
		}
	}
	if found < 450 {
		t.Errorf("%d of the latest 500 are known, want nearly all", found)
	}
	at = at.Add(recentFor)
	if m := r.find(keyed(19_999).event.ID); m != nil {
		t.Errorf("after a day: known %v", m)
	}
	none := newRecent(0, time.Now)
	none.land(keyed(1), nil)
	if none.find(keyed(1).event.ID) != nil {
		t.Error("a limit of 0 remembers")
	}
}

// Each field makes a difference to the fingerprint, and borders between fields do.
func TestFingerprintTellsRequestsApart(t *testing.T) {
	t.Parallel()
	seed := newRecent(0, time.Now).seed
	seen := map[uint64]string{}
	for _, fields := range []string{
		``, `"model":"m"`, `"provider":"m"`, `"session_id":"m"`, `"step":"m"`, `"user_id":"m"`, `"error_type":"m"`, `"tags":["m"]`, `"tags":["m","m"]`, `"tags":["mm"]`,
		`"parent_event_id":"evt_00000000000000000000000001"`, `"status":"error"`, `"input_tokens":1`, `"output_tokens":1`, `"input_tokens":0`, `"latency_ms":1`, `"cost_usd":1`,
		`"input_tokens":2,"cache_read_tokens":1`, `"input_tokens":2,"cache_write_tokens":1`, `"input_tokens":2,"cache_write_1h_tokens":1`, `"output_tokens":1,"reasoning_tokens":1`,
		`"metadata":{}`, `"metadata":{"a":1}`, `"timestamp":"2026-01-01T00:00:00Z"`,
	} {
		var r request
		comma := ","
		if fields == "" {
			comma = ""
		}
		if err := decode([]byte(`{"agent":"a"`+comma+fields+`}`), &r); err != nil {
			t.Fatal(err)
		}
		sum := r.fingerprint(seed)
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have the same fingerprint", fields, other)
		}
		seen[sum] = fields
	}
}
