package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/schema/account"
)

// A response that is worth it is compressed for those who accept gzip, and for nobody
// else.
func TestResponsesAreCompressedWhenAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	event := `{"agent":"a","model":"gpt-4o","input_tokens":1}`
	batch := "[" + strings.Repeat(event+",", 99) + event + "]"
	for _, c := range []struct {
		path, body, accept string
		compressed         bool
	}{
		{"/v1/track/batch", batch, "gzip", true},
		{"/v1/track/batch", batch, "br, gzip;q=0.5", true},
		{"/v1/track/batch", batch, "gzip;q=0", false},
		{"/v1/track/batch", batch, "zstd", false},
		{"/v1/track/batch", batch, "identity", false},
		{"/v1/track", event, "gzip", false},
	} {
		status, header, text := f.send(t, http.MethodPost, c.path, []byte(c.body), "Authorization", "Bearer "+f.secret, "Accept-Encoding", c.accept)
		if got := header.Get("Content-Encoding") == "gzip"; status != http.StatusOK || got != c.compressed || header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s, Accept-Encoding %q: status %d, compressed %t, want %t; Vary %q", c.path, c.accept, status, got, c.compressed, header.Get("Vary"))
		}
		if c.compressed {
			reader, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		}
		if !json.Valid(text) {
			t.Errorf("%s, Accept-Encoding %q: not JSON: %.100s", c.path, c.accept, text)
		}
	}
}

// Every problem carries the id of its request, in a batch too.
func TestProblemsCarryTheRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := f.post(t, "/v1/track/batch", `[{"agent":"a"},{},{"agent":""}]`, "X-Request-Id", "mine")
	var got []any
	for _, result := range r.body["results"].([]any) {
		got = append(got, result.(map[string]any)["request_id"])
	}
	if diff := cmp.Diff([]any{nil, "mine", "mine"}, got); diff != "" {
		t.Errorf("request_id of the results (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/v1/track", "/v1/events", "/v1/track/batch", "/v1/traces", "/v1/budgets/check"} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions} {
			r := f.do(t, method, path, nil)
			if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" || r.body["code"] != "method_not_allowed" {
				t.Errorf("%s %s: status %d, Allow %q, %v", method, path, r.status, r.header.Get("Allow"), r.body)
			}
			wantRequestID(t, r)
		}
	}
	wantRequestID(t, f.do(t, http.MethodPost, "/nowhere", nil))
	f.ingest.keys = brokenKeys{}
	r = f.post(t, "/v1/track", `{"agent":"a"}`)
	if r.status != http.StatusInternalServerError {
		t.Errorf("a handler that panics: status %d", r.status)
	}
	wantRequestID(t, r)
}

func wantRequestID(t *testing.T, r answer) {
	t.Helper()
	if id := r.header.Get("X-Request-Id"); id == "" || r.body["request_id"] != id || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("X-Request-Id %q, Content-Type %q, %v", id, r.header.Get("Content-Type"), r.body)
	}
}

// brokenKeys panic when they are looked up.
type brokenKeys struct{ testKeys }

func (brokenKeys) Lookup(context.Context, account.Hash, account.Asker) (account.Credential, bool, error) {
	panic("broken")
}

// An agent that asks before each call uses up nothing of what it may send; what it may
// ask is limited by itself.
func TestBudgetChecksHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ingest.limits = &testLimits{limit: 1, left: 1}
	now := time.Unix(1_790_000_000, 0)
	f.ingest.checks = limit.NewChecks(limit.Config{Free: 1, Pro: 1, Enterprise: 1}, func() time.Time { return now })
	var got strings.Builder
	for range 11 {
		got.WriteString(rates(f.post(t, "/v1/budgets/check", `{"agent":"a"}`)))
	}
	got.WriteString(rates(f.post(t, "/v1/track", `{"agent":"a"}`)))
	var want strings.Builder
	for left := range 10 {
		fmt.Fprintf(&want, "200 10 %d 1790000040 \n", 9-left)
	}
	want.WriteString("429 10 0 1790000040 40\n200 1 0 1790000040 \n")
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("status, limit, remaining, reset, retry after (-want +got):\n%s", diff)
	}
}
