package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/outlayhq/outlay/schema/job"
)

// Options say how a kind of job is worked on.
type Options struct {
	// Workers is how many jobs of the kind one replica works on at a time. Defaults to 1.
	Workers int
	// Timeout bounds one try: its context ends then. Defaults to 10 minutes; less than 0 is no bound.
	Timeout time.Duration
	// Wait returns how long to wait before the try that follows try number attempt. Defaults to 1 s, doubling up to 5 minutes.
	Wait func(attempt int) time.Duration
}

const (
	defaultTimeout = 10 * time.Minute
	maxWait        = 5 * time.Minute
)

func defaultWait(attempt int) time.Duration {
	return min(maxWait, time.Second<<min(attempt-1, 20))
}

// Task is one try at a job.
type Task[T job.Args] struct {
	Args T
	// Attempt counts from 1.
	Attempt int
	// Last is true when no try will follow this one.
	Last bool
}

// Refusal is an error that another try would not mend. Its text is for the people who asked for the job.
type Refusal struct{ Text string }

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Refuse returns a Refusal.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Handle registers how jobs of T's kind are done. An error leads to another try, unless it is a Refusal or there were enough.
func Handle[T job.Args](r *Runner, o Options, f func(context.Context, *Task[T]) error) {
	var none T
	register(r, none.Kind(), o, func(ctx context.Context, j *river.Job[T]) (string, error) {
		err := f(ctx, &Task[T]{Args: j.Args, Attempt: j.Attempt, Last: last(j.JobRow)})
		return outcomeOf(ctx, err, last(j.JobRow)), err
	})
}

func last(j *rivertype.JobRow) bool { return j.Attempt >= j.MaxAttempts }

func outcomeOf(ctx context.Context, err error, last bool) string {
	var refusal *Refusal
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, job.ErrLost):
		return outcomeLost
	case stopping(ctx):
		return outcomeRetry
	case last, errors.As(err, &refusal):
		return outcomeFailed
	}
	return outcomeRetry
}

// stopping reports whether a try was cut short because the process ends, which does not count as a try.
func stopping(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// register adds a kind with its queue. f returns the outcome for the metrics and, unless it is done, why.
func register[T job.Args](r *Runner, kind string, o Options, f func(context.Context, *river.Job[T]) (outcome string, err error)) {
	r.metrics.add(kind)
	r.queues[kind] = river.QueueConfig{MaxWorkers: cmp.Or(o.Workers, 1)}
	river.AddWorker(r.workers, &worker[T]{runner: r, options: o, run: f})
}

// worker is a kind of job as River sees it.
type worker[T job.Args] struct {
	river.WorkerDefaults[T]
	runner  *Runner
	options Options
	run     func(context.Context, *river.Job[T]) (string, error)
}

// Timeout bounds one try.
func (w *worker[T]) Timeout(*river.Job[T]) time.Duration {
	return cmp.Or(w.options.Timeout, defaultTimeout)
}

// NextRetry returns when to try again.
func (w *worker[T]) NextRetry(j *river.Job[T]) time.Time {
	wait := w.options.Wait
	if wait == nil {
		wait = defaultWait
	}
	return time.Now().Add(wait(j.Attempt))
}

// Work does one try, counts it, and reports to River what became of it.
func (w *worker[T]) Work(ctx context.Context, j *river.Job[T]) error {
	start := time.Now()
	w.runner.hands.take(j.ID)
	defer w.runner.hands.drop(j.ID)
	outcome, err := w.try(ctx, j)
	w.runner.metrics.observe(j.Kind, outcome, time.Since(start))
	switch outcome {
	case outcomeDone, outcomeLost:
		return nil
	case outcomeFailed:
		w.runner.log.ErrorContext(ctx, "job failed", "kind", j.Kind, "attempt", j.Attempt, "error", err)
		return river.JobCancel(err)
	}
	if stopping(ctx) {
		return errors.Join(err, context.Canceled) // By which River knows.
	}
	w.runner.log.WarnContext(ctx, "job will be tried again", "kind", j.Kind, "attempt", j.Attempt, "error", err)
	return err
}

// try makes of a panic an error: one bad job must not end the process.
func (w *worker[T]) try(ctx context.Context, j *river.Job[T]) (outcome string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
			outcome = outcomeOf(ctx, err, last(j.JobRow))
		}
	}()
	return w.run(ctx, j)
}

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
