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
	for reported := false; ; reported = true {
		unlock, err := advisory.TryLock(ctx, conn, advisory.Migrate)
		if err != nil || unlock != nil {
			return unlock, err
		}
		if !reported {
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
