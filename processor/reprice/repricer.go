package reprice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/reprice"
)

// Deps are what a Repricer works with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	// Topic is the one that events are stored from.
	Topic string
	// Jobs runs them. Register adds the kind to it.
	Jobs    *jobs.Runner
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Repricer reprices events as jobs.
type Repricer struct {
	Deps
	metrics *metrics
}

// workers is how many accounts a processor reprices at a time.
const workers = 2

// Register adds a Repricer's kind of jobs to its runner. A try has no end of its own: what it has done is kept, and a processor
// that is gone is noticed.
func Register(d Deps) {
	r := &Repricer{d, newMetrics(d.Metrics)}
	jobs.Handle(d.Jobs, jobs.Options{Workers: workers, Timeout: -1}, r.reprice)
}

// reprice does a job from where it stands: a slice 0 has done nothing yet.
func (r *Repricer) reprice(ctx context.Context, t *jobs.Task[reprice.Args]) (any, error) {
	r.metrics.running.Inc()
	defer r.metrics.running.Dec()
	store := reprice.NewStore(r.Pool)
	state, err := store.State(ctx, t.AccountID, t.JobID)
	if errors.Is(err, job.ErrNotFound) {
		return nil, jobs.Refuse("What was asked for is not there any more.")
	}
	if err != nil {
		return nil, err
	}
	// The book was pinned when the job was asked for; prices that changed since do not count.
	book, err := store.Book(ctx, &state)
	if err != nil {
		return nil, err
	}
	if err := r.awaitStored(ctx, state.ReceivedBefore); err != nil {
		return nil, err
	}
	if state.Slice == 0 {
		total, err := r.count(ctx, &state)
		if err == nil {
			err = t.Progress(ctx, 0, total)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.slices(ctx, t.Attempt, &state, book); err != nil {
		return nil, err
	}
	if !state.DryRun {
		if err := r.awaitRefreshed(ctx, &state); err != nil {
			return nil, err
		}
	}
	return r.result(ctx, &state)
}

const (
	// firstWidth is the time that the first slice spans. The next span more or less, as there were events.
	firstWidth = 15 * time.Minute
	// minWidth and maxWidth bound it. In the columnstore, what a slice costs grows with its width.
	minWidth = time.Second
	maxWidth = 24 * time.Hour
)

// slices goes through the events, from where the job stands. try is the number of the try at the job, which fences what it writes.
func (r *Repricer) slices(ctx context.Context, try int, state *reprice.State, book *price.Book) error {
	// The width follows the density of events: halved after a full slice, doubled after any other.
	width := firstWidth
	for state.Next.Time.Before(state.To) {
		full, err := r.slice(ctx, try, state, book, width)
		if err != nil {
			return err
		}
		if full {
			width = max(width/2, minWidth)
		} else {
			width = min(2*width, maxWidth)
		}
	}
	return nil
}

// slice does one slice of at most the given width, and moves state behind it. It reports whether there were more events than it
// takes at once.
func (r *Repricer) slice(ctx context.Context, try int, state *reprice.State, book *price.Book, width time.Duration) (full bool, err error) {
	// The duration includes the waits between tries.
	start := time.Now()
	for attempt := 1; ; attempt++ {
		var s slice
		if s, full, err = r.try(ctx, try, state, book, width); err == nil {
			r.metrics.observe(&s, state.DryRun, time.Since(start))
			return full, nil
		}
		if !passing(err) || attempt == maxTries || ctx.Err() != nil {
			return false, err
		}
		r.metrics.retries.Inc()
		r.Log.WarnContext(ctx, "slice not repriced, trying again", "attempt", attempt, "error", err)
		if err := backoff.Sleep(ctx, backoff.Wait(attempt, firstWait, longestWait)); err != nil {
			return false, err
		}
		// The slice may be done all the same: the answer got lost.
		stands, err := reprice.NewStore(r.Pool).State(ctx, state.AccountID, state.JobID)
		if err != nil {
			continue // As will the next try, if it does not pass.
		}
		if stands.Slice > state.Slice {
			*state = stands
			return false, nil
		}
	}
}

// try reads, prices and saves a slice once.
func (r *Repricer) try(
	ctx context.Context, try int, state *reprice.State, book *price.Book, width time.Duration,
) (s slice, full bool, err error) {
	// A slice ends at its width or at its number of events, whichever comes first.
	end := state.Next.Time.Add(width)
	if end.After(state.To) {
		end = state.To
	}
	events, err := r.read(ctx, state, end)
	if err != nil {
		return slice{}, false, fmt.Errorf("read a slice: %w", err)
	}
	s = slice{next: reprice.Before(end)}
	if full = len(events) == sliceEvents; full {
		s.next = events[len(events)-1].Position
	}
	for i := range events {
		if err := s.add(&events[i], book); err != nil {
			return slice{}, false, err
		}
	}
	if err := r.save(ctx, try, state, &s); err != nil {
		return slice{}, false, fmt.Errorf("save a slice of %d events: %w", len(events), err)
	}
	state.Slice++
	state.Next = s.next
	return s, full, nil
}
