package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/ingest/decode"
)

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
	if n := f.metric(t, "outlay_ingest_warnings_total"); n != 6 {
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
	var r decode.Request
	start := time.Now()
	if err := decode.RequestFromJSON(&r, []byte(body.String()+"}")); err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings()) > 8 {
		t.Errorf("%d warnings after %v", len(r.Warnings()), time.Since(start))
	}
}
