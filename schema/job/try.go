package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Try is one try at a job. Whatever it writes has its number in the condition, so a try that was given up writes nothing.
type Try struct {
	ID        schema.ID
	AccountID schema.ID
	Kind      string
	Args      json.RawMessage
	Attempt   int
}

const startTry = `
UPDATE jobs SET state = 'running', attempt = attempt + 1, waiting_for = NULL, started_at = coalesce(started_at, now())
WHERE job_id = $1 AND finished_at IS NULL
RETURNING job_id AS id, account_id, kind, args, attempt`

// Start begins a try, and gives up the one before if that still runs somewhere. It returns ErrLost when the job has ended.
func (s *Store) Start(ctx context.Context, id schema.ID) (Try, error) {
	rows, _ := s.db.Query(ctx, startTry, id)
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Try])
	if errors.Is(err, pgx.ErrNoRows) {
		return Try{}, ErrLost
	}
	if err != nil {
		return Try{}, fmt.Errorf("start job: %w", err)
	}
	return t, nil
}

const fenceTry = `SELECT FROM jobs WHERE job_id = $1 AND attempt = $2 AND state = 'running' FOR UPDATE`

// Fence holds the job for the rest of the transaction, which so takes effect for this try or not at all. It returns ErrLost
// when the try was given up.
func (s *Store) Fence(ctx context.Context, t *Try) error {
	return s.change(ctx, "hold job", fenceTry, t.ID, t.Attempt)
}

const noteProgress = `
UPDATE jobs SET done = $3, total = $4, waiting_for = NULL WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Progress notes how far a try is. It returns ErrLost.
func (s *Store) Progress(ctx context.Context, t *Try, done, total int64) error {
	return s.change(ctx, "note progress", noteProgress, t.ID, t.Attempt, done, total)
}

const noteWait = `
UPDATE jobs SET waiting_for = $3 WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Waiting notes what a try waits for, for people, until its next progress or its end. It returns ErrLost.
func (s *Store) Waiting(ctx context.Context, t *Try, what string) error {
	return s.change(ctx, "note what is waited for", noteWait, t.ID, t.Attempt, what)
}

const finishTry = `
UPDATE jobs SET state = 'done', result = $3, waiting_for = NULL, error = NULL, done = coalesce(total, done), finished_at = now()
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
	return s.change(ctx, "finish job", finishTry, t.ID, t.Attempt, text)
}

const requeueTry = `
UPDATE jobs SET state = 'queued', waiting_for = NULL, error = coalesce(nullif($3, ''), error) WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Requeue ends a try that is to be followed by another. reason is for people; empty when nothing went wrong. It returns ErrLost.
func (s *Store) Requeue(ctx context.Context, t *Try, reason string) error {
	return s.change(ctx, "put job back", requeueTry, t.ID, t.Attempt, reason)
}

const failTry = `
UPDATE jobs SET state = 'failed', waiting_for = NULL, error = $3, finished_at = now() WHERE job_id = $1 AND attempt = $2 AND state = 'running'`

// Fail ends a job for good. reason is for people. It returns ErrLost.
func (s *Store) Fail(ctx context.Context, t *Try, reason string) error {
	return s.change(ctx, "fail job", failTry, t.ID, t.Attempt, reason)
}

// change runs a statement that must find the try.
func (s *Store) change(ctx context.Context, what, statement string, args ...any) error {
	tag, err := s.db.Exec(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if tag.RowsAffected() == 0 {
		return ErrLost
	}
	return nil
}
