package work

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

const tryRescueLock = `SELECT pg_try_advisory_xact_lock($1)`

// rescueJobs puts back into the queue what runners that are gone had in hand, and what the queue believes this one to have in
// hand and it has not, unless it was tried often enough.
const rescueJobs = `
WITH lost AS (
	SELECT id, attempt >= max_attempts AS spent
	FROM river.river_job j
	WHERE state = 'running' AND attempted_at < now() - $1::interval AND CASE
		WHEN j.attempted_by[cardinality(j.attempted_by)] = $3 THEN j.id <> ALL ($4::bigint[])
		ELSE NOT EXISTS (
			SELECT FROM job_runners r
			WHERE r.runner_id = j.attempted_by[cardinality(j.attempted_by)] AND r.seen_at > now() - $1::interval)
		END
	FOR UPDATE SKIP LOCKED
), moved AS (
	UPDATE river.river_job j SET
		state = (CASE WHEN spent THEN 'discarded' ELSE 'available' END)::river.river_job_state,
		finalized_at = CASE WHEN spent THEN now() END, scheduled_at = now()
	FROM lost WHERE j.id = lost.id
	RETURNING (j.args->>'job_id')::uuid AS job_id, spent
), told AS (
	UPDATE jobs SET state = CASE WHEN spent THEN 'failed' ELSE 'queued' END, waiting_for = NULL,
		error = CASE WHEN spent THEN $2 ELSE error END, finished_at = CASE WHEN spent THEN now() END
	FROM moved WHERE jobs.job_id = moved.job_id AND finished_at IS NULL
)
SELECT count(*) FROM moved`

// requeueOrphans makes new entries for jobs that the queue has none of any more, as happens when a try that was given up wakes
// up and ends the entry of the one that has taken over.
const requeueOrphans = `
INSERT INTO river.river_job (kind, queue, args, max_attempts)
SELECT j.kind, j.kind, jsonb_build_object('job_id', j.job_id), $1
FROM jobs j
WHERE j.finished_at IS NULL AND j.created_at < now() - interval '1 minute' AND NOT EXISTS (
	SELECT FROM river.river_job r WHERE r.args @> jsonb_build_object('job_id', j.job_id) AND r.finalized_at IS NULL)`

// rescue looks after jobs that nobody works on any more.
func (r *Runner) rescue(ctx context.Context) error {
	var rescued int64
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, tryRescueLock, advisory.RescueJobs).Scan(&mine); err != nil || !mine {
			return err
		}
		if err := tx.QueryRow(ctx, rescueJobs, r.gone, whatPeopleSee, r.id, r.hands.held(r.settled)).Scan(&rescued); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, requeueOrphans, defaultTries)
		if err != nil {
			return err
		}
		rescued += tag.RowsAffected()
		return nil
	})
	if err != nil {
		return fmt.Errorf("rescue jobs: %w", err)
	}
	if rescued > 0 {
		r.metrics.rescued.Add(float64(rescued))
		r.log.WarnContext(ctx, "jobs that nobody worked on any more were put back", "jobs", rescued)
	}
	return nil
}
