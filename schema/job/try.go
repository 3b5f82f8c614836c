package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Try is one try at a job. Whatever it writes has its number in the condition, so a try that was given up writes nothing.
type Try struct {
	JobID     schema.ID
	AccountID schema.ID
	Kind      string
	// Args is the JSON of the kind's arguments.
	Args json.RawMessage
	// Attempt is the number of the try, from 1.
	Attempt int
	// Failures counts the tries before that count: those that a stop of their runner ended do not.
	Failures int
	// Last is true when no other try will follow if this one fails.
	Last bool
}

// The rows are chosen first and once: a plan that chose them again would claim more than there is room for. A runner without a
// heartbeat claims nothing, because others would take its jobs for lost.
const claim = `
WITH due AS MATERIALIZED (
	SELECT j.job_id
	FROM unnest($3::text[], $4::integer[]) AS room (kind, free), LATERAL (
		SELECT job_id FROM jobs
		WHERE kind = room.kind AND finished_at IS NULL AND state = 'queued' AND run_at <= now()
		ORDER BY run_at, job_id LIMIT room.free FOR UPDATE SKIP LOCKED
	) j
	WHERE EXISTS (SELECT FROM job_runners WHERE runner_id = $1 AND seen_at > now() - $2::interval)
)
UPDATE jobs SET state = 'running', runner_id = $1, attempt = attempt + 1, waiting_for = NULL, started_at = coalesce(started_at, now())
FROM due WHERE jobs.job_id = due.job_id
RETURNING jobs.job_id, account_id, kind, args, attempt, failures, failures + 1 >= max_tries AS last`

// Claim begins tries at jobs that are due, those that are due the longest first: up to free[i] of kinds[i]. The heartbeat of the
// runner has to be younger than deadAfter. Other runners claim other jobs.
func (s *Store) Claim(ctx context.Context, runner string, deadAfter time.Duration, kinds []string, free []int) ([]Try, error) {
	return pgdb.Rows[Try](ctx, s.db, "claim jobs", claim, runner, deadAfter, kinds, free)
}

const fenceTry = `SELECT FROM jobs WHERE job_id = $1 AND attempt = $2 AND state = 'running' FOR UPDATE`

// Fence holds the job for the rest of the transaction, which so takes effect for this try or not at all. It returns ErrLost
// when the try was given up.
func (s *Store) Fence(ctx context.Context, t *Try) error {
	return pgdb.Change(ctx, s.db, "hold job", ErrLost, fenceTry, t.JobID, t.Attempt)
}

const noteProgress = `
UPDATE jobs SET done = $3, total = $4, waiting_for = NULL WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Progress notes how far a try is. It returns ErrLost.
func (s *Store) Progress(ctx context.Context, t *Try, done, total int64) error {
	return pgdb.Change(ctx, s.db, "note progress", ErrLost, noteProgress, t.JobID, t.Attempt, done, total)
}

const noteWait = `
UPDATE jobs SET waiting_for = $3 WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Waiting notes what a try waits for, for people, until its next progress or its end. It returns ErrLost.
func (s *Store) Waiting(ctx context.Context, t *Try, what string) error {
	return pgdb.Change(ctx, s.db, "note what is waited for", ErrLost, noteWait, t.JobID, t.Attempt, what)
}

const finishTry = `
UPDATE jobs SET state = 'done', runner_id = NULL, result = $3, waiting_for = NULL, error = NULL, done = coalesce(total, done), finished_at = now()
WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Finish ends a job that is done. result is kept as JSON; nil keeps none. It returns ErrLost.
func (s *Store) Finish(ctx context.Context, t *Try, result any) error {
	var text []byte
	if result != nil {
		var err error
		if text, err = json.Marshal(result); err != nil {
			return fmt.Errorf("encode the result of a job: %w", err)
		}
	}
	return pgdb.Change(ctx, s.db, "finish job", ErrLost, finishTry, t.JobID, t.Attempt, text)
}

const putBackTry = `
UPDATE jobs SET state = 'queued', runner_id = NULL, waiting_for = NULL WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// PutBack ends a try that did not fail but cannot go on, as when its runner stops. It returns ErrLost.
func (s *Store) PutBack(ctx context.Context, t *Try) error {
	return pgdb.Change(ctx, s.db, "put job back", ErrLost, putBackTry, t.JobID, t.Attempt)
}

const retryTry = `
UPDATE jobs SET state = 'queued', runner_id = NULL, waiting_for = NULL, failures = failures + 1, error = $3, run_at = now() + $4::interval
WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Retry ends a try that failed and is to be followed by another after wait. reason is for people. It returns ErrLost.
func (s *Store) Retry(ctx context.Context, t *Try, reason string, wait time.Duration) error {
	return pgdb.Change(ctx, s.db, "have job tried again", ErrLost, retryTry, t.JobID, t.Attempt, reason, wait)
}

const failTry = `
UPDATE jobs SET state = 'failed', runner_id = NULL, waiting_for = NULL, failures = failures + 1, error = $3, finished_at = now()
WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Fail ends a job for good. reason is for people. It returns ErrLost.
func (s *Store) Fail(ctx context.Context, t *Try, reason string) error {
	return pgdb.Change(ctx, s.db, "fail job", ErrLost, failTry, t.JobID, t.Attempt, reason)
}
