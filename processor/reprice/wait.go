package reprice

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/reprice"
)

const (
	// pollInterval is how often it is looked whether what is waited for is there.
	pollInterval = 250 * time.Millisecond
	// storedWithin bounds the wait for events that were accepted before.
	storedWithin = 10 * time.Minute
	// refreshedWithin bounds the wait for aggregates. Readers see by complete_until what is still to come.
	refreshedWithin = 5 * time.Minute
)

// A topic whose partitions were all never complete is empty: there is nothing to wait for.
const selectStored = `
SELECT coalesce(min(complete_until) >= $2 OR max(complete_until) = '-infinity', true) FROM kafka_offsets WHERE topic = $1`

// awaitStored waits until everything that was received before a time is stored, so that it is repriced.
func (r *Repricer) awaitStored(ctx context.Context, before time.Time) error {
	// An event that is stored later would keep the old price and be in no difference.
	stored, err := r.await(ctx, "wait for the events that were received before", storedWithin, selectStored, r.Topic, before)
	if err == nil && !stored {
		return jobs.Refuse("Events that were accepted before are not stored yet. Ask again once complete_until in analytics has passed the time of this request.")
	}
	return err
}

// Without differences nothing was corrected, and no aggregate has to change.
const selectRefreshed = `
SELECT refreshed_at >= $1 OR NOT EXISTS (SELECT FROM reprice_differences WHERE account_id = $2 AND job_id = $3) FROM usage_progress`

// awaitRefreshed waits until the aggregates hold what was corrected, if anything was.
func (r *Repricer) awaitRefreshed(ctx context.Context, state *reprice.State) error {
	now, err := pgdb.Value[time.Time](ctx, r.Pool, "ask the database for the time", `SELECT clock_timestamp()`)
	if err != nil {
		return err
	}
	refreshed, err := r.await(ctx, "wait for the aggregates", refreshedWithin, selectRefreshed, now, state.AccountID, state.JobID)
	if err == nil && !refreshed {
		r.Log.WarnContext(ctx, "events are repriced, and the aggregates do not hold all of it yet")
	}
	return err
}

// await asks until the answer is true, and returns false when that took too long.
func (r *Repricer) await(ctx context.Context, action string, within time.Duration, question string, args ...any) (bool, error) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if is, err := pgdb.Value[bool](ctx, r.Pool, action, question, args...); err != nil || is {
			return is, err
		}
		if err := backoff.Sleep(ctx, pollInterval); err != nil {
			return false, err
		}
	}
	return false, nil
}

// usage_15m has a row for each quarter hour, so the first one may hold events from before the start.
const selectCount = `
SELECT coalesce(sum(events), 0)::bigint FROM usage_15m
WHERE account_id = $1 AND bucket > $2::timestamptz - interval '15 minutes' AND bucket < $3 AND ($4::text IS NULL OR model = $4)`

// count returns how many events there are about: those with another source of cost are among them. It returns 0 where to count
// them takes too long.
func (r *Repricer) count(ctx context.Context, state *reprice.State) (int64, error) {
	n, err := pgdb.Value[int64](ctx, r.Pool, "count events", selectCount, state.AccountID, state.From, state.To, state.Model)
	if pgdb.SQLState(err) == pgdb.QueryCanceled {
		return 0, nil
	}
	return n, err
}
