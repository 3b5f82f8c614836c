package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Expired counts the rows that one ExpireAccounts deleted, by kind: events of accounts that keep them for less long than the
// installation, sessions of which no event is left, their share links, and dead letters and revisions of events of the same age.
type Expired map[string]int64

// ExpireAccounts deletes what is past the retention of each account: events day by day, where the account's own retention is
// shorter than the installation's, and what would outlive them. It is meant to be called hourly or so, by any number of
// processors: one of them works, the others return at once. What it did before an error stays done.
// Sums outlive their events.
func ExpireAccounts(ctx context.Context, conn *pgx.Conn, now time.Time) (all Expired, err error) {
	// Two processors at once would delete the same rows and wait for each other.
	release, err := advisory.TryLock(ctx, conn, advisory.ExpireAccounts)
	if err != nil || release == nil {
		return all, err
	}
	defer release()

	expiries, err := pgdb.Rows[expiry](ctx, conn, "read the retention of accounts", selectExpiries, now)
	if err != nil {
		return all, err
	}
	all = Expired{}
	for _, x := range expiries {
		if err := x.expire(ctx, conn, all); err != nil {
			return all, err
		}
	}
	return all, nil
}

// expiry is the time before which nothing of an account is kept: all of it, and of that the events that are deleted by
// row. Both are the start of a day.
type expiry struct {
	// Own is set when the account keeps events for less long than the installation, so that they are deleted by row.
	AccountID [16]byte
	Before    time.Time
	Own       bool
}

// An account may keep events for less long than the installation, never for longer.
const selectExpiries = `
select a.id as account_id, r.retention_days is not null as own,
       date_bin('1 day', $1::timestamptz - least(s.raw_retention, make_interval(days => r.retention_days)),
           timestamptz '2000-01-01 00:00:00+00') as before
from accounts a cross join schema_settings s left join account_retention r on r.account_id = a.id and r.retention_days is not null
where s.raw_retention is not null or r.retention_days is not null
order by a.id`

// expire deletes what is past the expiry and adds the numbers of rows to all.
func (x *expiry) expire(ctx context.Context, conn *pgx.Conn, all Expired) error {
	if x.Own {
		if err := x.deleteEvents(ctx, conn, all); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		kind, sql string
		args      []any
	}{
		{"sessions", deleteExpiredSessions, []any{x.AccountID, x.Before}},
		{"share_links", deleteExpiredShares, []any{x.AccountID}},
		{"dead_letters", deleteExpiredLetters, []any{x.AccountID, x.Before}},
		{"revisions", deleteExpiredRevisions, []any{x.AccountID, x.Before}},
	} {
		tag, err := conn.Exec(ctx, part.sql, part.args...)
		if err != nil {
			return fmt.Errorf("delete %s before %v: %w", part.kind, x.Before, err)
		}
		all[part.kind] += tag.RowsAffected()
	}
	return nil
}

const selectOldest = `select min(ts) from events where account_id = $1 and ts < $2`

// recordDeleted comes before the rows go, so that no reader takes what is left for all there was.
const recordDeleted = `update account_retention set deleted_before = greatest(deleted_before, $2) where account_id = $1`

const deleteOneDay = `delete from events where account_id = $1 and ts >= $2 and ts < $3`

// A day of a chunk that is in the columnstore may be more than what a statement may change by default.
const liftColumnstoreLimit = `set local timescaledb.max_tuples_decompressed_per_dml_transaction = 0`

// deleteEvents deletes a day at a time, each in its own transaction: what was deleted before an error stays deleted.
func (x *expiry) deleteEvents(ctx context.Context, conn *pgx.Conn, all Expired) error {
	if err := pgdb.Exec(ctx, conn, "record what is deleted", recordDeleted, x.AccountID, x.Before); err != nil {
		return err
	}
	for {
		oldest, err := pgdb.Value[*time.Time](ctx, conn, "look for expired events", selectOldest, x.AccountID, x.Before)
		if err != nil || oldest == nil {
			return err
		}
		from := oldest.UTC().Truncate(day)
		to := from.Add(day) // At most x.Before: both are the start of a day.
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, liftColumnstoreLimit); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, deleteOneDay, x.AccountID, from, to)
			all["events"] += tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("delete events of %v: %w", from, err)
		}
	}
}

// A session that still gets events stays, whatever its sums are of.
const deleteExpiredSessions = `
delete from sessions s
where account_id = $1 and started_at < $2 and ended_at < $2
  and not exists (select from session_parts p where p.account_id = $1 and p.session_id = s.session_id)`

// The links of sessions of which nothing is left. Implicit sessions are in no table but that of the events.
const deleteExpiredShares = `
delete from session_shares h
where account_id = $1
  and not exists (select from sessions s where s.account_id = $1 and s.session_id = h.session_id)
  and not exists (select from session_parts p where p.account_id = $1 and p.session_id = h.session_id)
  and not exists (select from events e where e.account_id = $1 and e.session_id = h.session_id)`

const deleteExpiredLetters = `delete from dead_letters where account_id = $1 and received_at < $2`

const deleteExpiredRevisions = `delete from event_revisions where account_id = $1 and ts < $2`

// expireAccounts is ExpireAccounts as a task.
func (u *Upkeep) expireAccounts(ctx context.Context, conn *pgx.Conn) error {
	done, err := ExpireAccounts(ctx, conn, u.now())
	rows := int64(0)
	for kind, n := range done {
		u.expired.WithLabelValues(kind).Add(float64(n))
		rows += n
	}
	if rows > 0 {
		u.log.InfoContext(ctx, "retention of accounts kept", "rows", done)
	}
	return err
}
