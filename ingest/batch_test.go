package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// One bad event of a batch is told in its place and never costs the others.
func TestBatchJudgesEachEventAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	events := []string{
		`{"agent":"a","model":"gpt-4o","input_tokens":100}`,
		`{"model":"gpt-4o"}`,
		`{"agent":"a","agent":"b"}`,
		`"text"`,
		`{"agent":"c"}`,
	}
	for name, r := range map[string]answer{
		"array":  f.post(t, "/v1/track/batch", "["+strings.Join(events, ",")+"]"),
		"ndjson": f.post(t, "/v1/track/batch", strings.Join(events, "\n")+"\n\n", "Content-Type", "application/x-ndjson"),
	} {
		if r.status != 207 || fmt.Sprint(r.body["accepted"]) != "2" || fmt.Sprint(r.body["rejected"]) != "3" {
			t.Fatalf("%s: status %d, %v", name, r.status, r.body)
		}
		for i, want := range []string{"200", "422", "422", "422", "200"} {
			result := r.body["results"].([]any)[i].(map[string]any)
			if got := fmt.Sprint(result["status"]); got != want {
				t.Errorf("%s: result %d has status %s, want %s", name, i, got, want)
			}
			if want == "200" && (result["tracked"] != true || result["event_id"] == "") {
				t.Errorf("%s: result %d is no tracking result: %v", name, i, result)
			}
		}
	}
	var agents []string
	for _, e := range f.events(t, 4) {
		agents = append(agents, e.Agent)
	}
	if len(agents) != 4 {
		t.Errorf("agents in Kafka: %v, want a and c twice", agents)
	}
}

func TestBatchAllGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := f.post(t, "/v1/track/batch", `[`+strings.Repeat(`{"agent":"a"},`, 999)+`{"agent":"a"}]`)
	if r.status != 200 || fmt.Sprint(r.body["accepted"]) != "1000" {
		t.Fatalf("status %d, accepted %v, want 200 and 1000", r.status, r.body["accepted"])
	}
	f.events(t, 1000)
}

// What is no batch at all is refused as a whole, and nothing of it is recorded.
func TestBatchRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"empty":        {`[]`, 422},
		"blank":        {``, 422},
		"an object":    {`{"agent":"a"}`, 422},
		"cut off":      {`[{"agent":"a"},{"agent"`, 422},
		"trailing":     {`[{"agent":"a"}] x`, 422},
		"too many":     {`[` + strings.Repeat(`{"agent":"a"},`, 1000) + `{"agent":"a"}]`, 422},
		"too large":    {`[{"agent":"` + strings.Repeat("a", 4<<20) + `"}]`, 413},
		"extra commas": {`[{"agent":"a"},,{"agent":"b"}]`, 422},
	} {
		if r := f.post(t, "/v1/track/batch", c.body); r.status != c.status {
			t.Errorf("%s: status %d, want %d", name, r.status, c.status)
		}
	}
	if r := f.post(t, "/v1/track/batch", `[]`, "Authorization", ""); r.status != 401 {
		t.Errorf("without a key: status %d, want 401", r.status)
	}
	// One marker event is all the topic holds.
	f.post(t, "/v1/track", `{"agent":"marker"}`)
	if e := f.events(t, 1); len(e) != 1 || e[0].Agent != "marker" {
		t.Errorf("recorded: %v", e)
	}
}
