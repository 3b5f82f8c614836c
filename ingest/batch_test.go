package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/outlayhq/outlay/schema/wire"
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

// Batches that come at once and after each other, some of them refused, do not mix
// what their events are made of, though they use each other's memory.
func TestBatchesDoNotMix(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const senders, rounds = 8, 12
	var group sync.WaitGroup
	for sender := range senders {
		group.Go(func() {
			for round := range rounds {
				f.postMarked(t, fmt.Sprintf("%d-%d", sender, round), 1+(sender*7+round*13)%60)
			}
		})
	}
	group.Wait()
	want := 0
	for sender := range senders {
		for round := range rounds {
			want += 1 + (sender*7+round*13)%60
		}
	}
	seen := map[string]bool{}
	for _, e := range f.events(t, want) {
		mark := e.Agent
		got := fmt.Sprint(e.SessionID, e.Tags, string(e.Metadata), e.Step, e.UserID, e.IdempotencyKey, e.InputTokens)
		if wanted := fmt.Sprint("ses_s"+mark, []string{"t" + mark, mark}, `{"m":"`+mark+`"}`, "p"+mark, "u"+mark, "k"+mark, len(mark)); got != wanted {
			t.Errorf("event %s: %s, want %s", mark, got, wanted)
		}
		parts, err := wire.AppendBreakdownJSON(nil, e.Breakdown)
		if err != nil || !json.Valid(parts) || !strings.Contains(string(parts), fmt.Sprintf(`"tokens":%d,`, len(mark))) {
			t.Errorf("event %s has the breakdown %s, error %v", mark, parts, err)
		}
		seen[mark] = true
	}
	if len(seen) != want {
		t.Errorf("%d different events, want %d", len(seen), want)
	}
	f.nothingUnderWay(t)
}

// postMarked posts a batch of n events with the same mark in all that each is made of,
// and between them some that are refused, and checks the answers.
func (f *fixture) postMarked(t *testing.T, batch string, n int) {
	t.Helper()
	var events []string
	for i := range n {
		mark := fmt.Sprintf("%s-%d", batch, i)
		events = append(events, fmt.Sprintf(`{"agent":%[1]q,"model":"gpt-4o","session_id":"s%[1]s","tags":["t%[1]s",%[1]q],"metadata":{"m":%[1]q},`+
			`"step":"p%[1]s","user_id":"u%[1]s","idempotency_key":"k%[1]s","input_tokens":%[2]d}`, mark, len(mark)))
		if i%7 == 3 {
			events = append(events, `{"agent":"refused","tags":["a","b"],"metadata":{"a":[1,2]},"session_id":"x","timestamp":"2020-01-01T00:00:00Z"}`)
		}
	}
	r := f.post(t, "/v1/track/batch", "["+strings.Join(events, ",")+"]")
	good := 0
	for i, result := range r.results(t) {
		if refused := strings.Contains(events[i], `"refused"`); refused != (fmt.Sprint(result["status"]) == "422") {
			t.Errorf("batch %s: event %d was answered %v", batch, i, result)
			continue
		} else if refused {
			continue
		}
		if want := fmt.Sprintf("ses_s%s-%d", batch, good); result["session_id"] != want {
			t.Errorf("batch %s: event %d was answered with the session %v, want %s", batch, i, result["session_id"], want)
		}
		good++
	}
	if good != n {
		t.Errorf("batch %s: %d events are recorded, want %d", batch, good, n)
	}
}
