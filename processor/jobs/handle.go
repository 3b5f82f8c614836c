package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/job"
)

// Options are how a kind of job is worked on.
type Options struct {
	// Workers is how many jobs of the kind one replica works on at a time. Defaults to 1.
	Workers int
	// Timeout bounds one try: its context ends then. Defaults to 10 minutes; less than 0 is no bound.
	Timeout time.Duration
	// Wait returns how long to wait before the next try when so many have failed. Defaults to about 1 s, doubling up to 5 minutes.
	Wait func(failures int) time.Duration
}

// kind is how jobs of one kind are done: Options with their defaults, and the function that was registered.
type kind struct {
	// workers and timeout are the defaults where Options had none; a timeout below 0 is none.
	workers int
	timeout time.Duration
	wait    func(failures int) time.Duration
	// run decodes the arguments and does one try. It may panic.
	run func(context.Context, *job.Try) (result any, err error)
}

// defaultTimeout is that of Options, and of what Every does.
const defaultTimeout = 10 * time.Minute

// defaultWait is that of Options. With the 10 tries that a job has, what lasts for 8 minutes does not fail it.
func defaultWait(failures int) time.Duration {
	return backoff.Wait(failures, time.Second, 5*time.Minute)
}

// Task is one try at a job.
type Task[T job.Args] struct {
	*job.Try
	// Args are the decoded arguments.
	Args T
	// pool is the runner's.
	pool *pgxpool.Pool
}

// Progress notes that done of total units are done. It returns job.ErrLost when the try was given up, and the job should end.
func (t *Task[T]) Progress(ctx context.Context, done, total int64) error {
	return job.NewStore(t.pool).Progress(ctx, t.Try, done, total)
}

// Waiting notes what the try waits for, for people, until its next progress or its end. It returns job.ErrLost as Progress does.
func (t *Task[T]) Waiting(ctx context.Context, what string) error {
	return job.NewStore(t.pool).Waiting(ctx, t.Try, what)
}

// Fence holds the job until the end of tx: what is written in it is written by this try or not at all.
func (t *Task[T]) Fence(ctx context.Context, tx pgx.Tx) error {
	return job.NewStore(tx).Fence(ctx, t.Try)
}

// Refusal is an error that another try would not mend. Its text is for the people who asked for the job.
type Refusal struct{ Text string }

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Refuse returns a Refusal.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Handle registers how jobs of T's kind are done. The result of f is kept as JSON for those who look at the job. An error leads to
// another try, unless it is a Refusal or there were enough; those who look get the text of a Refusal, and of no other error.
func Handle[T job.Args](r *Runner, o Options, f func(context.Context, *Task[T]) (result any, err error)) {
	k := &kind{workers: cmp.Or(o.Workers, 1), timeout: cmp.Or(o.Timeout, defaultTimeout), wait: o.Wait}
	if k.wait == nil {
		k.wait = defaultWait
	}
	k.run = func(ctx context.Context, try *job.Try) (any, error) {
		t := &Task[T]{Try: try, pool: r.pool}
		if err := json.Unmarshal(try.Args, &t.Args); err != nil {
			return nil, fmt.Errorf("decode the job's arguments: %w", err)
		}
		return f(ctx, t)
	}
	// Kind is a constant of the type, so the zero value has it.
	var none T
	r.kinds[none.Kind()] = k
	r.metrics.add(none.Kind())
}
