package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// Tracked is one try at a job that an account asked for and looks at.
type Tracked[T job.Args] struct {
	Task[T]
	JobID     schema.ID
	AccountID schema.ID

	runner *Runner
	try    *job.Try
}

// Progress notes that done of total units are done. It returns job.ErrLost when the try was given up, and the job should end.
func (t *Tracked[T]) Progress(ctx context.Context, done, total int64) error {
	return job.NewStore(t.runner.pool).Progress(ctx, t.try, done, total)
}

// Waiting notes what the try waits for, for people, until its next progress or its end. It returns job.ErrLost as Progress does.
func (t *Tracked[T]) Waiting(ctx context.Context, what string) error {
	return job.NewStore(t.runner.pool).Waiting(ctx, t.try, what)
}

// Try is the number of the try, for statements that fence by themselves what they write: it is written only while the job is
// running with this number.
func (t *Tracked[T]) Try() int { return t.try.Attempt }

// Fence holds the job until the end of tx: what is written in it is written by this try or not at all.
func (t *Tracked[T]) Fence(ctx context.Context, tx pgx.Tx) error {
	return job.NewStore(tx).Fence(ctx, t.try)
}

// entry is what the queue holds of a tracked job; the rest is in its row.
type entry[T job.Args] struct {
	// JobID is the id as PostgreSQL writes a UUID.
	JobID string `json:"job_id"`
}

// Kind is that of the job's own arguments.
func (entry[T]) Kind() string {
	var none T
	return none.Kind()
}

// Track registers how tracked jobs of T's kind are done. The result of f is kept as JSON for those who look at the job. Errors
// are as for Handle; those who look get the text of a Refusal, and of no other error.
func Track[T job.Args](r *Runner, o Options, f func(context.Context, *Tracked[T]) (result any, err error)) {
	register(r, entry[T]{}.Kind(), o, func(ctx context.Context, j *river.Job[entry[T]]) (string, error) {
		last := last(j.JobRow)
		try, err := r.startTry(ctx, j.Args.JobID)
		if err != nil {
			return outcomeOf(ctx, err, false), err
		}
		t := &Tracked[T]{
			Task: Task[T]{Attempt: j.Attempt, Last: last}, JobID: try.ID, AccountID: try.AccountID, runner: r, try: &try,
		}
		result, err := work(ctx, t, f)
		if err == nil {
			err = job.NewStore(r.pool).Finish(ctx, &try, result)
		}
		if err != nil {
			err = r.giveUp(ctx, &try, last, err)
		}
		return outcomeOf(ctx, err, last), err
	})
}

// work decodes the arguments and runs f; a panic is an error.
func work[T job.Args](ctx context.Context, t *Tracked[T], f func(context.Context, *Tracked[T]) (any, error)) (result any, err error) {
	if err := json.Unmarshal(t.try.Args, &t.Args); err != nil {
		return nil, fmt.Errorf("decode the job's arguments: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return f(ctx, t)
}

func (r *Runner) startTry(ctx context.Context, id string) (job.Try, error) {
	var jobID schema.ID
	if err := r.pool.QueryRow(ctx, `SELECT $1::text::uuid`, id).Scan(&jobID); err != nil {
		return job.Try{}, fmt.Errorf("read the job's id: %w", err)
	}
	return job.NewStore(r.pool).Start(ctx, jobID)
}

// whatPeopleSee stands for errors that say nothing to those who asked for the job, or too much.
const whatPeopleSee = "Something went wrong on the server. Its log says what."

// noteTimeout bounds writing down how a try ended, which is done also when the try's own context is over.
const noteTimeout = 5 * time.Second

// giveUp writes down that a try did not succeed, and returns why.
func (r *Runner) giveUp(ctx context.Context, try *job.Try, last bool, why error) error {
	if errors.Is(why, job.ErrLost) {
		return why
	}
	stopped := stopping(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	store, refusal := job.NewStore(r.pool), new(Refusal)
	var err error
	switch {
	case stopped:
		err = store.Requeue(ctx, try, "")
	case errors.As(why, &refusal):
		err = store.Fail(ctx, try, refusal.Text)
	case last:
		err = store.Fail(ctx, try, whatPeopleSee)
	default:
		err = store.Requeue(ctx, try, whatPeopleSee)
	}
	if errors.Is(err, job.ErrLost) {
		return err
	}
	return errors.Join(why, err)
}
