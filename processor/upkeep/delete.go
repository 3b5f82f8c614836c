package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const day = 24 * time.Hour

// rule describes the rows of one table that are deleted by age.
type rule struct {
	table string
	// keep is how long a row is kept, counted from the time that the statement looks at.
	keep time.Duration
	// slice deletes at most $2 rows of before $1. Rows that somebody else has locked are left for the next time.
	slice string
}

// KeyRetention is how long an idempotency key is remembered: three times the promised 24 hours, so that a processor may be two
// days behind. No retention of events is shorter.
const KeyRetention = 72 * time.Hour

// keepHistory is how long is kept what shows what happened to an account: longer than a year, so that a year can be compared with
// the one before.
const keepHistory = 400 * day

// rules are all the tables whose rows are deleted by age. Tables whose rows belong to those (report_files, delivery_tries, what
// belongs to a job) follow by their foreign keys.
var rules = []rule{
	{"event_keys", KeyRetention, `
DELETE FROM event_keys WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM event_keys WHERE first_seen < $1 ORDER BY first_seen LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	// The sums of hours are compared with the same hours of the weeks before.
	{"arrivals", 9 * 7 * day, `
DELETE FROM arrivals WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM arrivals WHERE minutes = 60 AND bucket < $1 ORDER BY bucket LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"deliveries", 90 * day, `
DELETE FROM deliveries WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM deliveries WHERE finished_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	// What a threshold of a cap was notified for is kept for as long as its period lasts, which for a total has no end.
	{"incidents", keepHistory, `
DELETE FROM incidents WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM incidents i WHERE ended_at < $1 AND (kind = 'alert' OR NOT EXISTS (
    SELECT FROM budgets b WHERE b.account_id = i.account_id AND b.agent = i.scope AND b.period = 'total'))
  LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"reports", keepHistory, `
DELETE FROM reports WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM reports WHERE created_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"jobs", 90 * day, `
DELETE FROM jobs WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM jobs WHERE finished_at < $1 ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"price_books", keepHistory, `
DELETE FROM price_books WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM price_books b WHERE greatest(first_used, taken_at) < $1
    AND (taken_at IS NULL OR taken_at < (SELECT max(taken_at) FROM price_books))
    AND NOT EXISTS (SELECT FROM reprices r WHERE r.price_book = b.sha256)
  LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"audit_log", keepHistory, `
DELETE FROM audit_log WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM audit_log WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	// A cap that is set again goes on with the epoch of its latest reset.
	{"budget_resets", keepHistory, `
DELETE FROM budget_resets WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM budget_resets r WHERE at < $1 AND EXISTS (
    SELECT FROM budget_resets n WHERE n.account_id = r.account_id AND n.agent = r.agent AND n.at > r.at)
  LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"intake", keepHistory, `
DELETE FROM intake WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM intake WHERE hour < $1 ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"dead_letters", keepHistory, `
DELETE FROM dead_letters WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM dead_letters WHERE created_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"session_shares", 90 * day, `
DELETE FROM session_shares WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM session_shares WHERE least(revoked_at, expires_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	{"refresh_tokens", day, `
DELETE FROM refresh_tokens WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM refresh_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	// Far longer than Kafka's client or a network holds what was not written.
	{"released_leases", 30 * day, `
DELETE FROM released_leases WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM released_leases WHERE released_at < $1 ORDER BY released_at LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	// What a repriced event cost before goes with the event.
	{"event_revisions", 0, `
DELETE FROM event_revisions WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM event_revisions WHERE ts < $1::timestamptz - (SELECT raw_retention FROM schema_settings) LIMIT $2 FOR UPDATE SKIP LOCKED))`},
}

// Delete deletes the rows of every table that are older than they are kept. An error with one table does not keep the others
// waiting.
func (u *Upkeep) Delete(ctx context.Context, conn *pgx.Conn) error {
	var failed error
	for _, r := range rules {
		if ctx.Err() != nil {
			return errors.Join(failed, ctx.Err())
		}
		before := u.now().Add(-r.keep)
		failed = errors.Join(failed, u.slices(ctx, "delete", r.table, u.deleted.WithLabelValues(r.table),
			rowsOf(ctx, conn, r.slice, before, u.slice)))
	}
	return failed
}
