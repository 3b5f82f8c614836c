package ingest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if n := f.metric(t, "outlay_ingest_events_duplicate_total"); n != 5 {
		t.Errorf("duplicates counter = %v, want 5", n)
	}
	if n := f.metric(t, "outlay_ingest_events_accepted_total"); n != 2 {
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
	if n := f.metric(t, "outlay_ingest_recent_keys"); n != 0 {
		t.Errorf("%v keys are known that Kafka has not acknowledged", n)
	}
}
