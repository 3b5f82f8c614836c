package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const day = 24 * time.Hour

// rule describes the rows of one table that are deleted by age.
type rule struct {
	table string
	// keep is how long a row is kept, counted from the time that the condition looks at.
	keep time.Duration
	// condition selects rows r that are older than $1, with an order where the oldest are to go first.
	condition string
}

// deleteSlice deletes at most $2 rows. Rows that somebody else has locked are left for the next time.
const deleteSlice = `
DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s r WHERE %[2]s LIMIT $2 FOR UPDATE SKIP LOCKED))`

// KeyRetention is how long an idempotency key is remembered: three times the promised 24 hours, so that a processor may be two
// days behind. No retention of events is shorter.
const KeyRetention = 72 * time.Hour

// keepHistory is how long is kept what shows what happened to an account: longer than a year, so that a year can be compared with
// the one before.
const keepHistory = 400 * day

// rules are all the tables whose rows are deleted by age. Tables whose rows belong to those (report_files, delivery_tries, what
// belongs to a job) follow by their foreign keys.
var rules = []rule{
	{"event_keys", KeyRetention, `first_seen < $1 ORDER BY first_seen`},
	// The sums of hours are compared with the same hours of the weeks before.
	{"arrivals", 9 * 7 * day, `minutes = 60 AND bucket < $1 ORDER BY bucket`},
	{"deliveries", 90 * day, `finished_at < $1`},
	// What a threshold of a cap was notified for is kept for as long as its period lasts, which for a total has no end.
	{"incidents", keepHistory, `ended_at < $1 AND (kind = 'alert' OR NOT EXISTS (
		SELECT FROM budgets b WHERE b.account_id = r.account_id AND b.agent = r.scope AND b.period = 'total'))`},
	{"reports", keepHistory, `created_at < $1`},
	{"jobs", 90 * day, `finished_at < $1 ORDER BY finished_at`},
	{"price_books", keepHistory, `greatest(first_used, taken_at) < $1
		AND (taken_at IS NULL OR taken_at < (SELECT max(taken_at) FROM price_books))
		AND NOT EXISTS (SELECT FROM reprices q WHERE q.price_book = r.sha256)`},
	{"audit_log", keepHistory, `at < $1 ORDER BY at`},
	// A cap that is set again goes on with the epoch of its latest reset.
	{"budget_resets", keepHistory, `at < $1 AND EXISTS (
		SELECT FROM budget_resets n WHERE n.account_id = r.account_id AND n.agent = r.agent AND n.at > r.at)`},
	{"intake", keepHistory, `hour < $1 ORDER BY hour`},
	{"dead_letters", keepHistory, `created_at < $1`},
	{"session_shares", 90 * day, `least(revoked_at, expires_at) < $1`},
	{"refresh_tokens", day, `expires_at < $1 ORDER BY expires_at`},
	// Far longer than Kafka's client or a network holds what was not written.
	{"released_leases", 30 * day, `released_at < $1 ORDER BY released_at`},
	// What a repriced event cost before goes with the event.
	{"event_revisions", 0, `ts < $1::timestamptz - (SELECT raw_retention FROM schema_settings)`},
}

// Delete deletes the rows of every table that are older than they are kept. An error with one table does not keep the others
// waiting.
func (u *Upkeep) Delete(ctx context.Context, conn *pgx.Conn) error {
	// Tables are worked off one after the other, so that upkeep has one connection.
	var failed error
	for _, r := range rules {
		if ctx.Err() != nil {
			return errors.Join(failed, ctx.Err())
		}
		before := u.now().Add(-r.keep)
		failed = errors.Join(failed, u.slices(ctx, "delete", r.table, u.deleted.WithLabelValues(r.table),
			rowsOf(ctx, conn, fmt.Sprintf(deleteSlice, r.table, r.condition), before, u.slice)))
	}
	return failed
}
