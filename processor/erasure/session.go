package erasure

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/erasure"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// target is a session to be erased, or what one user has in it.
type target struct {
	// alias is the name that the session has afterwards, from which its old one cannot be found.
	session, alias string
	// user is nil for all of the session.
	user *string
}

// maxConflicts bounds how often a session is tried again because somebody else changed a row of it.
const maxConflicts = 5

// one erases a target and returns the number of its events.
func (e *eraser) one(ctx context.Context, t *try, x target) (events int64, err error) {
	for range maxConflicts {
		if events, err = e.once(ctx, t, x); pgdb.SQLState(err) != pgdb.SerializationFailure {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("erase a session: %w", err)
	}
	return events, nil
}

// Whoever folds parts of sessions holds this lock. It is taken before the snapshot, so that what the snapshot has of a session
// does not move while it is renamed.
const (
	stopFolding   = `SELECT pg_advisory_lock($1)`
	resumeFolding = `SELECT pg_advisory_unlock($1)`
)

// once erases a target in one snapshot: an event that is stored meanwhile is neither erased nor part of what is renamed, but of
// a new session.
func (e *eraser) once(ctx context.Context, t *try, x target) (events int64, err error) {
	// The lock belongs to the connection, so all of it happens on one.
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	if err := pgdb.Exec(ctx, conn, "stop folding", stopFolding, advisory.FoldSessions); err != nil {
		return 0, err
	}
	defer resume(ctx, conn)
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if err := t.Fence(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, settings); err != nil {
			return err
		}
		events, err = x.erase(ctx, tx, t)
		return err
	})
	return events, err
}

// resume gives the lock back; a connection that cannot is closed, and the lock with it.
func resume(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, resumeFolding, advisory.FoldSessions); err != nil {
		_ = conn.Conn().Close(ctx)
	}
}

// A session may have more rows in the columnstore than a statement may change by default, and take longer than others.
const settings = `SELECT set_config('timescaledb.max_tuples_decompressed_per_dml_transaction', '0', true),
	set_config('statement_timeout', '0', true)`

// $3 is the user, null for all. whole: nobody else takes part.
const selectTarget = `
WITH every AS (
	SELECT users, started_at, ended_at FROM sessions WHERE account_id = $1 AND session_id = $2
	UNION ALL
	SELECT users, started_at, ended_at FROM session_parts WHERE account_id = $1 AND session_id = $2
)
SELECT coalesce(min(started_at), '-infinity')::text, coalesce(max(ended_at), 'infinity')::text,
	$3::text IS NULL OR NOT EXISTS (SELECT FROM every, unnest(users) AS name WHERE name <> $3) AND NOT EXISTS (
		SELECT FROM events WHERE account_id = $1 AND session_id = $2 AND user_id IS DISTINCT FROM $3)
FROM every`

// Infinite bounds are text, because pgx has no time for them. The bounds keep chunks out that the session has no events in.
const eraseEvents = `
UPDATE events SET session_id = $3, user_id = NULL, tags = NULL, metadata = NULL, step = NULL, error_type = NULL, idempotency_key = NULL
WHERE account_id = $1 AND session_id = $2 AND ts >= $4::text::timestamptz AND ts <= $5::text::timestamptz AND ($6::text IS NULL OR user_id = $6)`

const (
	renameSession = `UPDATE sessions SET session_id = $3, users = '{}' WHERE account_id = $1 AND session_id = $2`
	renameParts   = `UPDATE session_parts SET session_id = $3, users = '{}' WHERE account_id = $1 AND session_id = $2`
	renameShares  = `UPDATE session_shares SET session_id = $3, revoked_at = coalesce(revoked_at, now()) WHERE account_id = $1 AND session_id = $2`
	// The audit log still records that somebody shared the session, under its new name.
	renameActs = `UPDATE audit_log SET target = $3 WHERE account_id = $1 AND target = $2 AND starts_with(action, 'session.')`
)

const (
	removeFromSession = `UPDATE sessions SET users = array_remove(users, $3) WHERE account_id = $1 AND session_id = $2`
	removeFromParts   = `UPDATE session_parts SET users = array_remove(users, $3) WHERE account_id = $1 AND session_id = $2`
	revokeShares      = `UPDATE session_shares SET revoked_at = now() WHERE account_id = $1 AND session_id = $2 AND revoked_at IS NULL`
)

// erase erases the target in tx. A session is renamed as a whole only when nobody else takes part in it; else it keeps its name, and
// what belongs to the user alone is removed.
func (x *target) erase(ctx context.Context, tx pgx.Tx, t *try) (events int64, err error) {
	// The range of the session's events, which bounds the chunks that are looked at.
	var from, to string
	var whole bool
	if err := tx.QueryRow(ctx, selectTarget, t.AccountID, x.session, x.user).Scan(&from, &to, &whole); err != nil {
		return 0, fmt.Errorf("look at the session: %w", err)
	}
	alias, user := x.alias, x.user
	if whole {
		user = nil
	} else {
		alias = x.session
	}
	tag, err := tx.Exec(ctx, eraseEvents, t.AccountID, x.session, alias, from, to, user)
	if err != nil {
		return 0, fmt.Errorf("erase events: %w", err)
	}
	statements, third := []string{renameSession, renameParts, renameShares, renameActs}, alias
	if !whole {
		if err := pgdb.Exec(ctx, tx, "revoke share links", revokeShares, t.AccountID, x.session); err != nil {
			return 0, err
		}
		statements, third = []string{removeFromSession, removeFromParts}, *x.user
	}
	for _, statement := range statements {
		if err := pgdb.Exec(ctx, tx, "rename the session", statement, t.AccountID, x.session, third); err != nil {
			return 0, err
		}
	}
	return tag.RowsAffected(), nil
}

// sessionsOf returns the sessions that a user takes part in.
func (e *eraser) sessionsOf(ctx context.Context, t *try) (sessions []string, err error) {
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settings); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, selectSessionsOf, t.AccountID, t.Args.UserID)
		sessions, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the sessions of a user: %w", err)
	}
	return sessions, nil
}

// forget takes out of the job whom or what it was about.
func (e *eraser) forget(ctx context.Context, t *try, done erasure.Result) error {
	text, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if err := t.Fence(ctx, tx); err != nil {
			return err
		}
		return pgdb.Exec(ctx, tx, "forget what was erased", forgetArgs, t.JobID, text)
	})
}
