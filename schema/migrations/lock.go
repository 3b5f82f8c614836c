package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

// lockPoll is the time between two tries for the lock.
const lockPoll = 200 * time.Millisecond

// ErrLocked is returned when another migration held the lock for longer than Options.LockTimeout.
var ErrLocked = errors.New("another migration is running")

// lockMigrations takes the lock of migrations and returns what releases it. It tries and tries again instead of waiting
// inside PostgreSQL, because a session that waits for a lock holds up every concurrent index build, and with it the
// migration it waits for.
func lockMigrations(ctx context.Context, conn *pgx.Conn, opt Options) (unlock func(), err error) {
	deadline := time.Now().Add(opt.LockTimeout)
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for told := false; ; told = true {
		locked, err := tryLock(ctx, conn, advisory.Migrate)
		if err != nil {
			return nil, err
		}
		if locked {
			return func() { freeLock(ctx, conn, advisory.Migrate) }, nil
		}
		if !told {
			opt.Log.InfoContext(ctx, "waiting for another migration", "holder", lockHolder(ctx, conn, advisory.Migrate))
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: held by %s", ErrLocked, lockHolder(ctx, conn, advisory.Migrate))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

const tryAdvisoryLock = `select pg_try_advisory_lock($1)`

// tryLock takes a session's advisory lock if it is free.
func tryLock(ctx context.Context, conn *pgx.Conn, key advisory.Key) (bool, error) {
	var locked bool
	if err := conn.QueryRow(ctx, tryAdvisoryLock, key).Scan(&locked); err != nil {
		return false, fmt.Errorf("try advisory lock: %w", err)
	}
	return locked, nil
}

const advisoryUnlock = `select pg_advisory_unlock($1)`

// freeLock gives a lock back, even when ctx is done. An error needs no answer: it means that the connection is lost, and the
// lock with it.
func freeLock(ctx context.Context, conn *pgx.Conn, key advisory.Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, advisoryUnlock, key)
}

const findLockHolder = `
select format('pid %s, %s at %s since %s', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'),
              coalesce(host(a.client_addr), 'local socket'), a.backend_start::timestamptz(0))
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid::bigint = $1::bigint >> 32 and l.objid::bigint = $1::bigint & 4294967295`

// lockHolder describes who holds the lock, for people.
func lockHolder(ctx context.Context, conn *pgx.Conn, key advisory.Key) string {
	var holder string
	err := conn.QueryRow(ctx, findLockHolder, key).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "nobody any more"
	}
	if err != nil {
		return "unknown"
	}
	return holder
}
