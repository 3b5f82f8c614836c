package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A name that is nearly that of a field was meant to be it; others are none of our business.
func TestClosestField(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"input_tokns": "input_tokens", "inputTokens": "input_tokens", "Input-Tokens": "input_tokens", "input_token": "input_tokens", "AGENT": "agent",
		"agnet": "agent", "modell": "model", "models": "model", "sessionId": "session_id", "session": "session_id", "userid": "user_id",
		"tag": "tags", "steps": "step", "metdata": "metadata", "cost_us": "cost_usd", "idempotencyKey": "idempotency_key", "latency": "latency_ms",
		"cache_write_h1_tokens": "cache_write_1h_tokens", "output_to" + "\u212a" + "ens": "output_tokens",
		"": "", "x": "", "stop": "", "name": "", "temperature": "", "cost": "", "tokens": "", "stage": "", "prompt": "", "message": "", "max_tokens": "",
		strings.Repeat("input_tokens", 4): "", strings.Repeat("\u023a", 20): "",
	} {
		if got := closestField(name); got != want {
			t.Errorf("closestField(%q) = %q, want %q", name, got, want)
		}
	}
	for _, field := range eventFields {
		if knownField([]byte(field)) != field || closestField(field+"x") == "" {
			t.Errorf("%s is not known", field)
		}
	}
}

// An event with a misspelled field is recorded, and whoever sent it learns what was ignored, alone and in a batch, and
// when it is sent again.
func TestMisspelledFieldsAreWarnedOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const body = `{"agent":"a","input_tokns":5,"temperature":0.7,"Modell":"gpt-4o","idempotency_key":"k"}`
	want := []any{
		map[string]any{"field": "input_tokns", "message": "is not a field and was ignored; the field is called input_tokens"},
		map[string]any{"field": "Modell", "message": "is not a field and was ignored; the field is called model"},
	}
	for i := range 2 {
		got := f.post(t, "/v1/track", body)
		if diff := cmp.Diff(any(want), got.body["warnings"]); got.status != http.StatusOK || diff != "" {
			t.Errorf("time %d: %d (-want +got):\n%s", i, got.status, diff)
		}
	}
	got := f.post(t, "/v1/track/batch", `[{"agent":"a"},{"agent":"a","input_tokns":5,"Modell":"x"},{"agent":"a","other":1}]`)
	results := got.body["results"].([]any)
	if diff := cmp.Diff(any(want), results[1].(map[string]any)["warnings"]); got.status != http.StatusOK || diff != "" {
		t.Errorf("in a batch: %d (-want +got):\n%s", got.status, diff)
	}
	for _, i := range []int{0, 2} {
		if warnings, ok := results[i].(map[string]any)["warnings"]; ok {
			t.Errorf("event %d has %v", i, warnings)
		}
	}
	if n := testutil.ToFloat64(f.ingest.metrics.warnings); n != 6 {
		t.Errorf("%v warnings are counted, want 6", n)
	}
	if e := f.events(t, 4); e[0].InputTokens != 0 {
		t.Errorf("recorded %d tokens", e[0].InputTokens)
	}
}

// However many names a body has, few are looked at.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(`{"agent":"a"`)
	for i := range 20_000 {
		fmt.Fprintf(&body, `,"agent%d":0`, i%10+10*i)
	}
	var r request
	start := time.Now()
	if err := decode([]byte(body.String()+"}"), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.warnings) > maxWarnings {
		t.Errorf("%d warnings after %v", len(r.warnings), time.Since(start))
	}
}
