package ingest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// noLimits lets everything through.
type noLimits struct{}

func (noLimits) Take(schema.ID, account.Plan, int64) limit.Standing {
	return limit.Standing{Allowed: true, Limit: 60_000_000, Remaining: 59_999_999, Reset: 4_000_000_020}
}
func (noLimits) Return(schema.ID, int64) {}

// testLimits is one window that never ends.
type testLimits struct{ limit, left int64 }

func (l *testLimits) Take(_ schema.ID, _ account.Plan, n int64) limit.Standing {
	ok := n <= l.left
	if ok {
		l.left -= n
	}
	return limit.Standing{Allowed: ok, Limit: l.limit, Remaining: l.left, Reset: 1_790_000_040, RetryAfter: 40*time.Second + 100*time.Millisecond}
}

func (l *testLimits) Return(_ schema.ID, n int64) { l.left += n }

// rates are the four headers of an answer.
func rates(a answer) string {
	return fmt.Sprintln(a.status, a.header.Get("X-RateLimit-Limit"), a.header.Get("X-RateLimit-Remaining"),
		a.header.Get("X-RateLimit-Reset"), a.header.Get("Retry-After"))
}

// Every answer after authentication carries the three headers as integers; 429
// says besides how long to wait, rounded up. A request that is refused for another
// reason counts.
func TestEveryAnswerCarriesTheRateLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ingest.limits = &testLimits{limit: 6, left: 6}
	const good, bad, big = `{"agent":"a"}`, `{}`, `{"agent":"a","metadata":{"k":"%s"}}`
	var got strings.Builder
	got.WriteString(rates(f.post(t, "/v1/track", good, "Authorization", "Bearer nobody")))
	got.WriteString(rates(f.post(t, "/v1/track", good)))
	got.WriteString(rates(f.post(t, "/v1/events", bad)))
	got.WriteString(rates(f.post(t, "/v1/track", good, "Content-Type", "text/plain")))
	got.WriteString(rates(f.post(t, "/v1/track", fmt.Sprintf(big, strings.Repeat("x", 300<<10)))))
	got.WriteString(rates(f.post(t, "/v1/track/batch", "["+good+","+bad+"]")))
	got.WriteString(rates(f.post(t, "/v1/events", good)))
	got.WriteString(rates(f.post(t, "/v1/track/batch", bad)))
	want := `401    
200 6 5 1790000040 
422 6 4 1790000040 
415 6 3 1790000040 
413 6 2 1790000040 
207 6 0 1790000040 
429 6 0 1790000040 41
429 6 0 1790000040 41
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("status, limit, remaining, reset, retry after (-want +got):\n%s", diff)
	}
}

// A batch counts its events. One that does not fit is refused as a whole and costs
// nothing; one that never could is told so instead of being asked to wait.
func TestBatchCountsItsEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ingest.limits = &testLimits{limit: 10, left: 10}
	batch := func(n int) string { return "[" + strings.Repeat(`{"agent":"a"},`, n-1) + `{"agent":"a"}]` }
	var got strings.Builder
	for _, n := range []int{7, 4, 11, 3, 1} {
		got.WriteString(rates(f.post(t, "/v1/track/batch", batch(n))))
	}
	want := `200 10 3 1790000040 
429 10 3 1790000040 41
422 10 3 1790000040 
200 10 0 1790000040 
429 10 0 1790000040 41
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("status, limit, remaining, reset, retry after (-want +got):\n%s", diff)
	}
	if n := len(f.events(t, 10)); n != 10 {
		t.Errorf("%d events recorded, want 10", n)
	}
}

// The names are spelled on the wire as they are documented.
func TestRateHeadersAreSpelledAsDocumented(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	setRateHeaders(w, limit.Standing{Limit: 60, Remaining: 0, Reset: 1_790_000_040})
	want := http.Header{"X-RateLimit-Limit": {"60"}, "X-RateLimit-Remaining": {"0"}, "X-RateLimit-Reset": {"1790000040"}}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}
