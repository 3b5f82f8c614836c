package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/job"
)

// internalError is shown in place of every error but a Refusal: its text may mean nothing to those who asked for the job, or give away too much.
const internalError = "Something went wrong on the server. The server's log has the reason."

// try does one try at a job, and records and counts how it ended.
func (r *Runner) try(ctx context.Context, t *job.Try) {
	defer r.running.remove(t)
	start, k := time.Now(), r.kinds[t.Kind]
	if k.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.timeout)
		defer cancel()
	}
	result, err := recovered(func() (any, error) { return k.run(ctx, t) })
	outcome, err := r.record(ctx, t, result, err)
	r.metrics.observe(t.Kind, outcome, time.Since(start))
	switch outcome {
	case outcomeFailed:
		r.log.ErrorContext(ctx, "job failed", "kind", t.Kind, "attempt", t.Attempt, "error", err)
	case outcomeRetry:
		r.log.WarnContext(ctx, "job will be tried again", "kind", t.Kind, "attempt", t.Attempt, "error", err)
	}
}

// recovered returns a panic of f as an error with its stack: one bad job must not end the process.
func recovered(f func() (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// record writes to the database how a try ended, and returns the outcome for the metrics with the reason. A try whose end
// cannot be written is rescued later. A stop of the runner does not count as a failed try, because the job is not the cause.
func (r *Runner) record(ctx context.Context, t *job.Try, result any, err error) (outcome string, _ error) {
	// A deadline means that the job took too long; a cancellation is the runner's stop.
	stopped := errors.Is(ctx.Err(), context.Canceled)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	store, refusal := job.NewStore(r.pool), new(Refusal)
	if err == nil {
		if err = store.Finish(ctx, t, result); err == nil {
			return outcomeDone, nil
		}
	}
	var recordErr error
	switch {
	case errors.Is(err, job.ErrLost):
		return outcomeLost, err
	case errors.As(err, &refusal):
		outcome, recordErr = outcomeFailed, store.Fail(ctx, t, refusal.Text)
	case stopped:
		outcome, recordErr = outcomeRetry, store.PutBack(ctx, t)
	case t.Last:
		outcome, recordErr = outcomeFailed, store.Fail(ctx, t, internalError)
	default:
		outcome, recordErr = outcomeRetry, store.Retry(ctx, t, internalError, r.kinds[t.Kind].wait(t.Failures+1))
	}
	if errors.Is(recordErr, job.ErrLost) {
		outcome = outcomeLost
	}
	return outcome, errors.Join(err, recordErr)
}

// repeat is what is done at intervals.
type repeat struct {
	// kind is the label of its metrics.
	kind  string
	every time.Duration
	// run may panic, which counts as an error.
	run func(context.Context) error
}

// Every has every replica do something short at intervals, beginning at once. It is counted among the jobs, but nobody can ask for
// it or look at it. Replicas may do it at the same time.
func (r *Runner) Every(interval time.Duration, kind string, f func(context.Context) error) {
	r.repeats = append(r.repeats, repeat{kind, interval, f})
	r.metrics.add(kind)
}

// repeat does something at its intervals until ctx ends. While the heartbeat fails it would fail, too, and waits.
func (r *Runner) repeat(ctx context.Context, x repeat) {
	for wait := time.Duration(0); backoff.Sleep(ctx, wait) == nil; {
		if wait = pollInterval; !r.healthy.Load() {
			continue
		}
		wait = x.every
		start, outcome := time.Now(), outcomeDone
		limited, cancel := context.WithTimeout(ctx, defaultTimeout)
		_, err := recovered(func() (any, error) { return nil, x.run(limited) })
		cancel()
		if err != nil && ctx.Err() == nil {
			outcome = outcomeFailed
			r.log.ErrorContext(ctx, "job failed", "kind", x.kind, "error", err)
		}
		r.metrics.observe(x.kind, outcome, time.Since(start))
	}
}
