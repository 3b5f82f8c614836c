package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// materializeAfter is the age that the end of a bucket has at least when it is materialised. Until then it is summed from quarter
// hours at every read, and what is stored in it needs no refresh: almost every event is stored sooner than this.
const materializeAfter = 15 * time.Minute

// rollup is a continuous aggregate.
type rollup struct {
	view  string
	width time.Duration
	// overBatches is set when it is made of usage_15m, which batches write to, and not of the rollup before it, which only refreshes do.
	overBatches bool
}

// rollups returns the continuous aggregates, each after the one that it is made of.
func rollups() []rollup {
	return []rollup{
		// usage_15m is a table, which batches keep up themselves.
		{view: "usage_hourly", width: time.Hour, overBatches: true},
		{view: "usage_daily", width: day},
		{view: "usage_daily_agents", width: day},
	}
}

// complete_until is read before the refresh begins: what is stored later may not be in it.
const selectProgress = `
SELECT (SELECT edition = 'community' FROM schema_settings), clock_timestamp(),
  (SELECT coalesce(min(complete_until), '-infinity')::text FROM kafka_offsets)`

// The table has one row, which readers join.
const updateProgress = `UPDATE rollup_progress SET refreshed_at = $1, complete_until = $2::text::timestamptz`

// RefreshRollups brings hours and days up to date: TimescaleDB computes the buckets anew in which it noted a change, because a late
// event or a correction was stored, and those that have ended since the last time. What was committed before the refresh began is
// in every rollup when it returns, which rollup_progress records for readers. It is meant to run every few seconds, in any number of
// processors: one of them works, the others return at once. It reports whether the rollups are up to date.
//
// now is the caller's clock; nothing is materialised that is too young by the database's own.
func RefreshRollups(ctx context.Context, conn *pgx.Conn, now time.Time) (done bool, err error) {
	var (
		community bool
		began     time.Time
		complete  string // may be -infinity
	)
	if err := conn.QueryRow(ctx, selectProgress).Scan(&community, &began, &complete); err != nil {
		return false, fmt.Errorf("read the progress of rollups: %w", err)
	}
	if !community {
		return true, nil
	}
	release, err := advisory.TryLock(ctx, conn, advisory.RefreshRollups)
	if err != nil || release == nil {
		return false, err
	}
	defer release()
	err = withoutStatementTimeout(ctx, conn, func() error {
		for _, r := range rollups() {
			if err := r.refresh(ctx, conn, now); err != nil {
				return fmt.Errorf("refresh %s: %w", r.view, err)
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	err = pgdb.Exec(ctx, conn, "record the progress of rollups", updateProgress, began, complete)
	return err == nil, err
}

// The range ends at the last whole bucket that is old enough.
const selectRange = `
SELECT nullif(materialized_until, '-infinity'),
  date_bin($2::interval, least($3::timestamptz, now()) - $4::interval, timestamptz '2000-01-01 00:00:00+00')
FROM rollups WHERE view_name = $1`

// In one piece: a refresh in batches would show the newest buckets before the older ones, and what lies between them would be in no
// answer meanwhile.
const refreshRollup = `
CALL refresh_continuous_aggregate($1::text::regclass, $2::timestamptz, $3::timestamptz, force => $4, options => '{"buckets_per_batch": 0}')`

const updateMaterialized = `UPDATE rollups SET materialized_until = $2 WHERE view_name = $1`

// refresh materialises what has changed, up to the last bucket that is old enough. TimescaleDB notes a change only below the time up
// to which a refresh has reached, and a transaction that looks the time up just before a refresh raises it, and commits just after,
// leaves no note. So when a bucket of what batches write is materialised for the first time, it is materialised again once the
// transactions that were writing then have ended.
func (r rollup) refresh(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	// from is nil when nothing is materialised yet.
	var from *time.Time
	var to time.Time
	if err := conn.QueryRow(ctx, selectRange, r.view, r.width, now, materializeAfter).Scan(&from, &to); err != nil {
		return fmt.Errorf("find what to materialise: %w", err)
	}
	if _, err := conn.Exec(ctx, refreshRollup, r.view, nil, to, false); err != nil {
		return err
	}
	if from != nil && !from.Before(to) {
		return nil
	}
	if r.overBatches {
		if err := awaitWriters(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, refreshRollup, r.view, from, to, true); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, updateMaterialized, r.view, to)
	return err
}

// writers are the transactions that have locked usage_15m to write to it.
const writers = `
FROM pg_locks WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation = 'usage_15m'::regclass AND mode = 'RowExclusiveLock' AND granted`

const (
	selectWriters = `SELECT coalesce(array_agg(virtualtransaction), '{}') ` + writers
	anyWriting    = `SELECT EXISTS (SELECT ` + writers + ` AND virtualtransaction = ANY ($1))`
)

// writersPoll is the time between two looks whether the writers have ended.
const writersPoll = 20 * time.Millisecond

// awaitWriters waits until each transaction has ended that is writing to usage_15m now. Later ones are not waited for.
func awaitWriters(ctx context.Context, conn *pgx.Conn) error {
	transactions, err := pgdb.Value[[]string](ctx, conn, "find who writes to usage_15m", selectWriters)
	if err != nil {
		return err
	}
	for writing := len(transactions) > 0; writing; {
		if writing, err = pgdb.Value[bool](ctx, conn, "wait for those who write to usage_15m", anyWriting, transactions); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, writersPoll); err != nil {
			return err
		}
	}
	return nil
}

// resetTimeout bounds the wait for a server that has gone away.
const resetTimeout = 5 * time.Second

// withoutStatementTimeout runs f, which may take as long as ctx: to compute a day anew in which millions of events arrived late takes
// longer than any other statement may. Compiling the plan of a refresh would take seconds, so that is off.
func withoutStatementTimeout(ctx context.Context, conn *pgx.Conn, f func() error) error {
	if err := pgdb.Exec(ctx, conn, "set no timeout", `SET statement_timeout = 0; SET jit = off`); err != nil {
		return err
	}
	err := f()
	if conn.IsClosed() {
		return err
	}
	// The connection goes back to the pool, and its settings with it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTimeout)
	defer cancel()
	return errors.Join(err, pgdb.Exec(ctx, conn, "reset the timeout", `RESET statement_timeout; RESET jit`))
}

// The table is empty where hours and days are views.
const selectRefreshAge = `SELECT coalesce(extract(epoch FROM nullif(refreshed_at, '-infinity')), 0)::float8 FROM rollup_progress`

// refreshRollups is RefreshRollups as a task.
func (u *Upkeep) refreshRollups(ctx context.Context, conn *pgx.Conn) error {
	if _, err := RefreshRollups(ctx, conn, u.now()); err != nil {
		return err
	}
	var refreshed float64
	err := conn.QueryRow(ctx, selectRefreshAge).Scan(&refreshed)
	if errors.Is(err, pgx.ErrNoRows) { // Hours and days are views, and always up to date.
		refreshed, err = float64(u.now().Unix()), nil
	}
	u.refreshed.Set(refreshed)
	return err
}
