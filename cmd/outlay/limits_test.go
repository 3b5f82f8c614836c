package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// limitSeconds is how long at least an account sends four times what it may:
// OUTLAY_E2E_LIMIT_SECONDS, or a number that fits into a CI run and holds no whole
// window.
func limitSeconds() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_LIMIT_SECONDS")); err == nil {
		return n
	}
	return 8
}

// windowSeconds is the length of a window.
const windowSeconds = 60

// rated is what an answer states of the rate limit.
type rated struct {
	status       int
	reset        int64 // Unix seconds
	retry        time.Duration
	contradicted string // what is wrong with the headers
}

// limited is three replicas with a limit, and what came of the requests to them, by
// the end of the window that the answers named.
type limited struct {
	*installation
	replicas []*replica
	limit    int

	mu             sync.Mutex
	admitted, sent map[int64]int
	faults         map[string]int
	// waited counts the refusals that a client obeyed, twice those after which it was
	// refused again.
	waited, twice int
}

// Three replicas together admit what the plan allows, within 5 percent, under four
// times the load; the headers are whole numbers and right; and a client that obeys
// Retry-After is not refused twice in a row.
func TestLimitAcrossReplicas(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	for range 12 {
		clients.Go(func() { l.obey(ctx) })
	}
	l.flood(ctx)
	cancel()
	clients.Wait()

	checked := 0
	for end, sent := range l.sent {
		t.Logf("window until %s: admitted %d of %d", time.Unix(end, 0).UTC().Format(time.TimeOnly), l.admitted[end], sent)
		if sent < enough*l.limit {
			continue // The load began or ended in it.
		}
		checked++
		if admitted := l.admitted[end]; admitted < l.limit*95/100 || admitted > l.limit*105/100 {
			t.Errorf("a window admitted %d, want %d within 5 percent", admitted, l.limit)
		}
	}
	t.Logf("clients that obey waited %d times and were refused again %d times", l.waited, l.twice)
	if checked == 0 || l.twice > 0 {
		t.Errorf("%d windows were full, and %d clients that waited were refused again", checked, l.twice)
	}
	for fault, n := range l.faults {
		t.Errorf("%d answers: %s", n, fault)
	}
}

// newLimited has the limit of the plan pro, or a tenth of it where the load is short.
func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{installation: newInstallation(t), limit: 6000, admitted: map[int64]int{}, sent: map[int64]int{}, faults: map[string]int{}}
	if limitSeconds() < windowSeconds {
		l.limit = 600
	}
	l.replicas = l.newReplicas(t, "--plan-enterprise", strconv.Itoa(l.limit))
	return l
}

// enough is how many times its limit a window has to get for what it admits to be
// evaluated.
const enough = 2

// full reports whether some window got enough.
func (l *limited) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sent := range l.sent {
		if sent >= enough*l.limit {
			return true
		}
	}
	return false
}

// flood sends four times what a window admits over all replicas, whatever is
// answered. Where that is slow it goes on until some window got enough.
func (l *limited) flood(ctx context.Context) {
	seconds := limitSeconds()
	rate := 4 * float64(l.limit) / float64(min(seconds, windowSeconds))
	start := time.Now()
	next := make(chan int)
	var wg sync.WaitGroup
	for range 48 {
		wg.Go(func() {
			for i := range next {
				l.send(ctx, i%len(l.replicas))
			}
		})
	}
	for i := 0; time.Since(start) < time.Duration(seconds)*time.Second || !l.full() && ctx.Err() == nil; i++ {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		next <- i
	}
	close(next)
	wg.Wait()
}

// prompt is how much later than it was asked to wait a client may be back to be evaluated: a
// moment later the flood has used up the next window.
const prompt = 500 * time.Millisecond

// obey is a client that waits as long as it is asked to.
func (l *limited) obey(ctx context.Context) {
	var due time.Time // When the client was asked to be back; zero if it was let through.
	for ctx.Err() == nil {
		r := l.send(ctx, rand.IntN(len(l.replicas)))
		wait, refused := 50*time.Millisecond, r.status == http.StatusTooManyRequests
		l.mu.Lock()
		if refused {
			wait = r.retry
			l.waited++
			if !due.IsZero() && time.Since(due) < prompt {
				l.twice++
			}
		}
		l.mu.Unlock()
		due = time.Time{}
		if refused {
			due = time.Now().Add(wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// send sends one event to a replica and notes the answer.
func (l *limited) send(ctx context.Context, replica int) rated {
	r, ok := l.ask(ctx, replica)
	if !ok {
		return rated{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[r.reset]++
	switch {
	case r.contradicted != "":
		l.faults[r.contradicted]++
	case r.status == http.StatusOK:
		l.admitted[r.reset]++
	case r.status != http.StatusTooManyRequests:
		l.faults[fmt.Sprintf("status %d", r.status)]++
	}
	return r
}

func (l *limited) ask(ctx context.Context, replica int) (rated, bool) {
	url := "http://" + l.replicas[replica].listen + "/v1/track"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"agent":"a"}`))
	if err != nil {
		return rated{}, false
	}
	req.Header.Set("Authorization", "Bearer "+l.credentials.APIKey)
	req.Header.Set("Content-Type", "application/json")
	asked := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return rated{}, false // The test is over.
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return l.read(resp, asked), true
}

// read reads the headers and holds them to what they mean. They were written at some
// moment since it was asked.
func (l *limited) read(resp *http.Response, asked time.Time) rated {
	r := rated{status: resp.StatusCode}
	limit, err1 := strconv.Atoi(resp.Header.Get("X-RateLimit-Limit"))
	remaining, err2 := strconv.Atoi(resp.Header.Get("X-RateLimit-Remaining"))
	reset, err3 := strconv.Atoi(resp.Header.Get("X-RateLimit-Reset"))
	r.reset = int64(reset)
	end := time.Unix(r.reset, 0)
	least, most := time.Until(end), end.Sub(asked)
	retry, err4 := strconv.Atoi(resp.Header.Get("Retry-After"))
	r.retry = time.Duration(retry) * time.Second
	switch {
	case err1 != nil || err2 != nil || err3 != nil:
		r.contradicted = "a header is no whole number"
	case limit != l.limit || remaining < 0 || remaining > limit:
		r.contradicted = fmt.Sprintf("limit %d, remaining %d", limit, remaining)
	case reset%windowSeconds != 0 || most < -5*time.Second || least > (windowSeconds+1)*time.Second:
		r.contradicted = fmt.Sprintf("the window ends in %v to %v", least, most)
	case (err4 == nil) != (r.status == http.StatusTooManyRequests):
		r.contradicted = fmt.Sprintf("status %d with Retry-After %q", r.status, resp.Header.Get("Retry-After"))
	case r.status == http.StatusTooManyRequests && (remaining != 0 || r.retry < least-time.Second || r.retry > most+6*time.Second):
		r.contradicted = fmt.Sprintf("refused with %d remaining, to come back in %v, %v to %v before the window ends", remaining, r.retry, least, most)
	}
	return r
}
