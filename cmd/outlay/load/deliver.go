package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
)

// eventResult is the tracking result, or one item of a batch's.
type eventResult struct {
	Status  int            `json:"status"`
	CostUSD schema.NanoUSD `json:"cost_usd"`
}

// batchResponse is the response to a batch: a result for each event, in their order.
type batchResponse struct {
	Results []eventResult `json:"results"`
}

// deliver sends n events until each has a clear response, and counts it. Without
// idempotency keys it sends once: a second time could record it twice.
func (s *sender) deliver(ctx context.Context, first, n int, r *Report) {
	pending := make([]int, n)
	for i := range pending {
		pending[i] = first + i
	}
	// Only events without a clear response are sent again, so a batch shrinks from try to try.
	deadline := time.Now().Add(s.cfg.GiveUp)
	for attempt := 1; ; attempt++ {
		var wait time.Duration
		pending, wait = s.attempt(ctx, pending, r)
		if len(pending) == 0 {
			return
		}
		if !s.cfg.Keys || ctx.Err() != nil || time.Now().After(deadline) {
			r.Unknown += len(pending)
			return
		}
		r.Retries++
		_ = backoff.Sleep(ctx, max(wait, backoff.Wait(attempt, 50*time.Millisecond, time.Second)))
	}
}

// attempt sends the events once and returns those without a clear response, and how
// long the service asks to wait.
func (s *sender) attempt(ctx context.Context, events []int, r *Report) (unclear []int, wait time.Duration) {
	results, status, wait := s.post(ctx, events)
	if results == nil {
		if status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			r.Refused += len(events)
			return nil, 0
		}
		return events, wait
	}
	for i, a := range results {
		switch {
		case a.Status == http.StatusOK:
			r.Acknowledged++
			r.Cost += a.CostUSD
		case a.Status >= 400 && a.Status < 500 && a.Status != http.StatusTooManyRequests:
			r.Refused++
		default:
			unclear = append(unclear, events[i])
		}
	}
	return unclear, wait
}

// post sends one request. results is nil when there is no result for each event;
// status is 0 when there is none at all.
func (s *sender) post(ctx context.Context, events []int) (results []eventResult, status int, wait time.Duration) {
	// A batch of one is sent as a single event: that is what most clients do.
	path, body := "/v1/track", s.events.body(events[0])
	if s.cfg.Batch > 1 {
		path, body = "/v1/track/batch", s.events.batch(events)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		panic("BUG: the request cannot be made: " + err.Error())
	}
	req.Header.Set("Authorization", "Bearer "+s.cfg.APIKey)
	req.Header.Set("Content-Type", "application/json")
	// An error may come after the server has recorded the events: their outcome is unknown.
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, 0
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusMultiStatus {
		wait, _ = time.ParseDuration(resp.Header.Get("Retry-After") + "s")
		return nil, resp.StatusCode, wait
	}
	return parseResults(text, s.cfg.Batch > 1, len(events)), resp.StatusCode, 0
}

// parseResults returns nil for a body that is not what the API promises: then nothing is known of the events.
func parseResults(text []byte, batch bool, n int) []eventResult {
	if !batch {
		a := eventResult{}
		if json.Unmarshal(text, &a) != nil {
			return nil
		}
		a.Status = http.StatusOK
		return []eventResult{a}
	}
	// Results are in the order of the events, so one that lacks some cannot be matched.
	var b batchResponse
	if json.Unmarshal(text, &b) != nil || len(b.Results) != n {
		return nil
	}
	return b.Results
}
