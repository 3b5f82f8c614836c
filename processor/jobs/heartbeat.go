package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// deadAfter is the age of the last heartbeat at which a runner is taken for dead; a runner beats five times as often. One that
// was only cut off finds its tries given up.
const deadAfter = 15 * time.Second

// beat keeps the heartbeat until ctx ends, and meanwhile rescues the jobs of dead runners and measures how long jobs wait.
func (r *Runner) beat(ctx context.Context) {
	tick := time.NewTicker(r.deadAfter / 5)
	defer tick.Stop()
	var since time.Time // Since when every heartbeat has succeeded.
	for {
		err := r.writeHeartbeat(ctx)
		switch wasHealthy := r.healthy.Swap(err == nil); {
		case err != nil:
		case !wasHealthy:
			since = time.Now()
		case time.Since(since) > r.deadAfter:
			// Not before: after an outage of the database every heartbeat is old, and nobody is to be taken for dead.
			err = r.rescue(ctx)
		}
		if err == nil {
			err = r.measureWaiting(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.log.DebugContext(ctx, "heartbeat of jobs failed", "error", err)
		}
		select {
		case <-ctx.Done():
			r.endHeartbeat(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// The row of a runner exists from its first heartbeat until it ends or has been silent for a day.
const upsertHeartbeat = `
INSERT INTO job_runners (runner_id, seen_at) VALUES ($1, now()) ON CONFLICT (runner_id) DO UPDATE SET seen_at = now()`

// writeHeartbeat writes this runner's row. The clock is the database's, so that runners need not agree on the time.
func (r *Runner) writeHeartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.deadAfter)
	defer cancel()
	return pgdb.Exec(ctx, r.pool, "write the heartbeat", upsertHeartbeat, r.id)
}

// Rows of runners that were killed are deleted by the way.
const deleteHeartbeat = `DELETE FROM job_runners WHERE runner_id = $1 OR seen_at < now() - interval '1 day'`

// endHeartbeat hands over at once what is still running. Without it others notice only after deadAfter.
func (r *Runner) endHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	_, _ = r.pool.Exec(ctx, deleteHeartbeat, r.id)
}

// rescueJobs ends the tries of dead runners, and those of this one that it does not run: it could not record how they ended. That
// counts as a failed try. Jobs that are locked are left for the next time: somebody works on them.
const rescueJobs = `
WITH lost AS (
	SELECT job_id FROM jobs j
	WHERE state = 'running' AND CASE WHEN runner_id = $1 THEN job_id <> ALL ($2::uuid[])
		ELSE NOT EXISTS (SELECT FROM job_runners r WHERE r.runner_id = j.runner_id AND seen_at > now() - $3::interval) END
	FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET failures = failures + 1, runner_id = NULL, waiting_for = NULL, run_at = now(),
	state = CASE WHEN failures + 1 < max_tries THEN 'queued' ELSE 'failed' END,
	error = CASE WHEN failures + 1 < max_tries THEN error ELSE $4 END,
	finished_at = CASE WHEN failures + 1 < max_tries THEN NULL ELSE now() END
FROM lost WHERE jobs.job_id = lost.job_id`

// rescue puts back jobs that nobody works on any more. Replicas may do it at the same time.
func (r *Runner) rescue(ctx context.Context) error {
	r.claiming.Lock()
	defer r.claiming.Unlock()
	// claiming is held, so no job of this runner is between its claim and its place in running.
	tag, err := r.pool.Exec(ctx, rescueJobs, r.id, r.running.jobs(), r.deadAfter, internalError)
	if err != nil {
		return fmt.Errorf("rescue jobs: %w", err)
	}
	if n := tag.RowsAffected(); n > 0 {
		r.metrics.rescued.Add(float64(n))
		r.log.WarnContext(ctx, "jobs that nobody worked on any more were put back", "jobs", n)
	}
	return nil
}

// A job waits from when it is due, not from when it was asked for.
const selectWaiting = `
SELECT kind, count(*), extract(epoch FROM now() - min(run_at))::float8 AS age
FROM jobs WHERE finished_at IS NULL AND state = 'queued' AND run_at <= now()
GROUP BY kind`

// measureWaiting sets the gauges of all kinds that this runner knows, 0 for those of which nothing waits.
func (r *Runner) measureWaiting(ctx context.Context) error {
	for kind := range r.kinds {
		r.metrics.waiting.WithLabelValues(kind).Set(0)
		r.metrics.oldest.WithLabelValues(kind).Set(0)
	}
	waiting, err := pgdb.Rows[struct {
		Kind  string
		Count int64
		Age   float64 // of the one that waits longest, in seconds
	}](ctx, r.pool, "measure how long jobs wait", selectWaiting)
	for _, w := range waiting {
		if r.kinds[w.Kind] != nil {
			r.metrics.waiting.WithLabelValues(w.Kind).Set(float64(w.Count))
			r.metrics.oldest.WithLabelValues(w.Kind).Set(w.Age)
		}
	}
	return err
}
