// Package erasure erases the content of sessions and users as a job: metadata, user, tags, names of steps, texts of errors, the
// client's idempotency keys and the client's names of sessions, wherever the database keeps them. When, by which agent and model,
// how many tokens and what it cost stays, so that no sum changes. Each session is erased in one transaction.
package erasure

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/erasure"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Deps are what the jobs work with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	// Jobs runs them. Register adds the kind to it.
	Jobs *jobs.Runner
	Now  func() time.Time
}

// tryTimeout bounds one try. What it has erased until then stays erased.
const tryTimeout = time.Hour

// Register adds the kind of jobs to the runner.
func Register(d Deps) {
	e := &eraser{pool: d.Pool, now: d.Now}
	jobs.Handle(d.Jobs, jobs.Options{Timeout: tryTimeout}, e.erase)
}

// eraser erases; one serves all jobs of a processor.
type eraser struct {
	pool *pgxpool.Pool
	now  func() time.Time
}

// try is one try at an erasure.
type try = jobs.Task[erasure.Args]

// erase waits until what is to be erased is stored, erases it session by session, and forgets whom it was about.
func (e *eraser) erase(ctx context.Context, t *try) (any, error) {
	if t.Args.Done != nil {
		return *t.Args.Done, nil // An earlier try erased everything and could not record its result.
	}
	if err := e.awaitStored(ctx, t); err != nil {
		return nil, err
	}
	var done erasure.Result
	var err error
	switch {
	case t.Args.SessionID != "":
		done, err = e.eraseSession(ctx, t)
	case t.Args.UserID != "":
		done, err = e.eraseUser(ctx, t)
	default:
		return nil, jobs.Refuse("The job names neither a session nor a user.")
	}
	if err != nil {
		return nil, err
	}
	return done, e.forget(ctx, t, done)
}

// storedPatience is how long a try waits for what was accepted before the job was asked for; another one goes on with it.
const storedPatience = 5 * time.Minute

// storedMargin is how far the clocks of the processes may be apart.
const storedMargin = 5 * time.Second

// errNotStored leads to another try: the processor may only be behind.
var errNotStored = errors.New("events that were accepted before the erasure was asked for are not stored yet")

// complete_until is by the clock of a processor, created_at by the database's.
const selectStored = `
SELECT NOT EXISTS (
  SELECT FROM kafka_offsets o, jobs j WHERE j.job_id = $1 AND o.complete_until < j.created_at + $2::interval)`

// awaitStored waits until every event is stored that was accepted before the job was asked for.
func (e *eraser) awaitStored(ctx context.Context, t *try) error {
	// Events that are stored after this wait would survive the erasure.
	deadline := e.now().Add(storedPatience)
	for {
		stored, err := pgdb.Value[bool](ctx, e.pool, "ask how far events are stored", selectStored, t.JobID, storedMargin)
		if err != nil || stored {
			return err
		}
		if e.now().After(deadline) {
			return errNotStored
		}
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// eraseSession erases one session of all users.
func (e *eraser) eraseSession(ctx context.Context, t *try) (erasure.Result, error) {
	// The alias depends on the job only, so a second try gives the same name.
	done := erasure.Result{SessionID: erasure.Alias(t.Args.SessionID, t.JobID)}
	events, err := e.one(ctx, t, target{session: t.Args.SessionID, alias: done.SessionID})
	if err != nil {
		return done, err
	}
	done.Events, done.Sessions = events, 1
	return done, nil
}

// maxRounds bounds how often eraseUser looks for sessions. The second time there are none, unless new ones came meanwhile.
const maxRounds = 5

// eraseUser erases a user from each session that the user takes part in.
func (e *eraser) eraseUser(ctx context.Context, t *try) (done erasure.Result, err error) {
	for range maxRounds {
		sessions, err := e.sessionsOf(ctx, t)
		if err != nil || len(sessions) == 0 {
			return done, err
		}
		for i, session := range sessions {
			if err := t.Progress(ctx, int64(i), int64(len(sessions))); err != nil {
				return done, err
			}
			alias := erasure.Alias(session, schema.NewID(e.now()))
			events, err := e.one(ctx, t, target{session: session, alias: alias, user: &t.Args.UserID})
			if err != nil {
				return done, err
			}
			done.Events += events
			done.Sessions++
		}
	}
	return done, nil
}

// The list of a session holds a hundred users; who is not in it has events.
const selectSessionsOf = `
SELECT session_id FROM sessions WHERE account_id = $1 AND users @> ARRAY[$2::text]
UNION SELECT session_id FROM session_parts WHERE account_id = $1 AND users @> ARRAY[$2::text]
UNION SELECT session_id FROM events WHERE account_id = $1 AND user_id = $2
ORDER BY 1`

// What was erased stands in the job's arguments; they are replaced by the result.
const forgetArgs = `UPDATE jobs SET args = jsonb_build_object('done', $2::jsonb) WHERE job_id = $1`
