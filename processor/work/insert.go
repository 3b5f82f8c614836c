package work

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/outlayhq/outlay/schema/job"
)

// When says when a job is due and how often it is tried. The zero value is now and ten times.
type When struct {
	At    time.Time
	Tries int
}

const defaultTries = 10

// Insert gives the tier itself a job, which is not tracked, in the transaction of what it belongs to.
func (r *Runner) Insert(ctx context.Context, tx pgx.Tx, args job.Args, w When) error {
	if w.Tries == 0 {
		w.Tries = defaultTries
	}
	_, err := r.inserter.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: args.Kind(), MaxAttempts: w.Tries, ScheduledAt: w.At})
	if err != nil {
		return fmt.Errorf("add a job of kind %s: %w", args.Kind(), err)
	}
	return nil
}

// unfinished are the states of a job that is still to be done. A periodic job is left out while the one before is.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}

// Every has a job of this kind done at intervals, by one replica at a time, beginning when a replica becomes the leader. The
// kind is registered with Handle. A try that fails is not repeated before the next is due.
func (r *Runner) Every(interval time.Duration, args job.Args) {
	r.periodic = append(r.periodic, river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) {
			return args, &river.InsertOpts{
				Queue: args.Kind(), MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByQueue: true, ByState: unfinished},
			}
		},
		&river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true}))
}
