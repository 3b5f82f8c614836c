// Package load is the load generator behind `outlay load`: it sends a known total
// of events, remembers what was acknowledged, waits until all of it is stored and
// compares count and money to the last nano-dollar. It is a client like any
// other and knows the service by its HTTP interface only.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
)

// Config is what to send and where to.
type Config struct {
	// BaseURL is the address of the service, APIKey what may track there.
	BaseURL, APIKey string
	// Email and Password sign in for the check.
	Email, Password string

	// Events is how many are sent in all.
	Events int
	// Concurrency is how many requests are under way at once.
	Concurrency int
	// Rate is events a second, evenly spaced; 0 is as fast as it goes.
	Rate float64
	// Agents is how many names the events are spread over.
	Agents int
	// Batch is how many events one request carries; 1 uses POST /v1/track.
	Batch int
	// Keys gives every event an idempotency key, so that a request
	// without a clear response is sent again until there is one.
	Keys bool
	// GiveUp is how long one request is tried.
	GiveUp time.Duration
	// Wait is how long to wait for the last event to be stored without any
	// progress.
	Wait time.Duration
	// Progress gets a line every two seconds.
	Progress io.Writer
}

// Report is what came of a run.
type Report struct {
	Acknowledged int
	Cost         schema.NanoUSD
	// Refused were answered 4xx, which means not recorded. Unknown had no clear
	// response: they may or may not be recorded.
	Refused, Unknown int
	// Retries is how often a request was sent again.
	Retries int

	Elapsed   time.Duration
	Latencies Latencies

	// Stored and StoredCost are what the service shows at the end.
	Stored     int
	StoredCost schema.NanoUSD
	// StoredAfter is how long after the last acknowledgement all was shown.
	StoredAfter time.Duration
}

// ErrDifference is returned when what is stored is not what was acknowledged.
var ErrDifference = errors.New("what is stored differs from what was acknowledged")

// Difference returns how many more events are stored than can be explained:
// negative when some are missing.
func (r *Report) Difference() int {
	switch {
	case r.Stored < r.Acknowledged:
		return r.Stored - r.Acknowledged
	case r.Stored > r.Acknowledged+r.Unknown:
		return r.Stored - r.Acknowledged - r.Unknown
	}
	return 0
}

// CostDifference is the stored money minus the acknowledged money. It means
// something only when no event is unknown.
func (r *Report) CostDifference() schema.NanoUSD { return r.StoredCost - r.Cost }

// Run sends, waits and compares. The report is valid also with ErrDifference.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	s := newSender(cfg)
	// Signing in comes first: a wrong address is reported before anything is sent.
	reader, err := newReader(ctx, cfg, s.client)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx); err != nil {
		return nil, err
	}
	// A run that fails half-way has a report of what was found until then.
	report := &s.result
	if err := reader.waitStored(ctx, s.run, report); err != nil {
		return report, err
	}
	if report.Difference() != 0 || report.Unknown == 0 && report.CostDifference() != 0 {
		return report, ErrDifference
	}
	return report, nil
}

// sender sends the events of one run.
type sender struct {
	cfg Config
	// client has a timeout a request, after which its outcome is unknown.
	client *http.Client
	run    string // part of every agent's name, so that runs can be distinguished
	// events makes the bodies; a retry has the same bytes as the first try.
	events *generator
	start  time.Time

	sent atomic.Int64

	mu     sync.Mutex
	result Report
}

// newSender returns a sender that keeps as many connections open as there are workers.
func newSender(cfg Config) *sender {
	// Without idle connections each worker would open one a request, and the dialling would be measured.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cfg.Concurrency
	transport.MaxIdleConns = 0
	transport.DisableCompression = true
	run := schema.NewID(time.Now()).Text("run")[len("run_"):][10:]
	return &sender{
		cfg: cfg, run: run,
		client: &http.Client{Transport: transport, Timeout: 15 * time.Second},
		events: newGenerator(run, cfg),
	}
}

// send starts the workers and returns when every event has its response.
func (s *sender) send(ctx context.Context) error {
	s.start = time.Now()
	// The line of progress ends before the report is printed.
	stopProgress := s.showProgress(ctx)
	defer stopProgress()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range s.cfg.Concurrency {
		wg.Go(func() { s.worker(ctx, &next) })
	}
	wg.Wait()
	s.result.Elapsed = time.Since(s.start)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted after %d events: %w", s.sent.Load(), err)
	}
	return nil
}

// worker takes the next events that nobody has taken until there are none.
func (s *sender) worker(ctx context.Context, next *atomic.Int64) {
	// Each worker counts for itself, so that counting costs no lock.
	local := Report{}
	for {
		first := int(next.Add(int64(s.cfg.Batch))) - s.cfg.Batch
		if first >= s.cfg.Events || ctx.Err() != nil {
			break
		}
		n := min(s.cfg.Batch, s.cfg.Events-first)
		due := s.pace(ctx, first)
		s.deliver(ctx, first, n, &local)
		local.Latencies.Add(time.Since(due))
		s.sent.Add(int64(n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.merge(&local)
}

// pace waits until event number first is due and returns that moment. A latency
// is counted from there, so that a slow response delays nobody's clock.
func (s *sender) pace(ctx context.Context, first int) time.Time {
	if s.cfg.Rate <= 0 {
		return time.Now()
	}
	// Counted from the start, so that a pause is caught up with.
	due := s.start.Add(time.Duration(float64(first) / s.cfg.Rate * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		_ = backoff.Sleep(ctx, wait)
	}
	return due
}

// merge adds what one worker counted. Elapsed and what is stored belong to the whole run.
func (r *Report) merge(o *Report) {
	r.Acknowledged += o.Acknowledged
	r.Cost += o.Cost
	r.Refused += o.Refused
	r.Unknown += o.Unknown
	r.Retries += o.Retries
	r.Latencies.merge(o.Latencies)
}

// showProgress prints a line every two seconds until the returned function is
// called.
func (s *sender) showProgress(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				n := s.sent.Load()
				fmt.Fprintf(s.cfg.Progress, "sent %d of %d events, %.0f a second\n",
					n, s.cfg.Events, float64(n)/time.Since(s.start).Seconds())
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
