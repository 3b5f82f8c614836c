package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Whoever looks in the middle of it all sees exact sums: while events of the last hour and late ones are stored, while the
// policy of the quarter hours refreshes, while two processors refresh what was late and what is coarse, and while what is materialised
// is deleted from the live sums. Only where a note says so may a sum
// still be behind. The clock is the test's own: it goes a quarter of an hour at each step, ten days ago.
func TestSumsAreExactAtAnyMoment(t *testing.T) {
	t.Parallel()
	db := schematest.DatabaseOf(t, migrations.Community)
	conn := still(t, db)
	exec(t, conn, createClock)
	const steps = 24
	now := time.Now().Add(-10 * day).Truncate(time.Hour)
	for range steps {
		now = now.Add(15 * time.Minute)
		g, ctx := errgroup.WithContext(t.Context())
		start := func(f func(context.Context, *pgx.Conn, time.Time) error) {
			g.Go(func() error {
				conn, err := pgx.Connect(ctx, db.URL)
				if err != nil {
					return err
				}
				defer conn.Close(context.WithoutCancel(ctx))
				return f(ctx, conn, now)
			})
		}
		start(storeRecent)
		start(storeLate)
		start(refreshAsPolicy)
		start(refreshAsProcessor)
		start(refreshAsProcessor)
		start(pruneAsProcessor)
		start(readExact)
		start(readExact)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	settleAll(t, conn)
	checkUsage(t, conn)
	if _, err := migrations.PruneLive(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	checkUsage(t, conn)
	if n := one[int](t, conn, `select count(*) from usage_live where bucket < (select quarters from usage_watermarks)`); n > 0 {
		t.Errorf("%d live sums are left that an aggregate holds", n)
	}
}

const batches = 5

// storeRecent stores events that are not late.
func storeRecent(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	for range batches {
		if err := storeVirtual(ctx, conn, now.Add(-migrations.LateAfter), now, false); err != nil {
			return err
		}
	}
	return nil
}

// storeLate stores late events and their notes.
func storeLate(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	for range batches {
		if err := storeVirtual(ctx, conn, now.Add(-2*day), now.Add(-2*time.Hour), true); err != nil {
			return err
		}
	}
	return nil
}

// storeVirtual stores a batch of events between from and to, which are notes of late buckets only if they are late by the
// test's clock: by the database's they all are.
func storeVirtual(ctx context.Context, conn *pgx.Conn, from, to time.Time, late bool) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := tryInsert(ctx, tx.Conn(), randomEvents(20, from, to)); err != nil || late {
			return err
		}
		_, err := tx.Exec(ctx, `delete from late_buckets where xmin = pg_current_xact_id()::xid`)
		return err
	})
}

func refreshAsPolicy(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	_, err := conn.Exec(ctx, `call refresh_continuous_aggregate('aggregates.usage_15m', $1::timestamptz, $2::timestamptz)`,
		now.Add(-45*day), now.Add(-migrations.MaterializedAfter))
	return unlessBusy(err)
}

// unlessBusy passes over the error of a refresh that met another one.
func unlessBusy(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return nil
	}
	return err
}

// createClock makes a now() that tells a connection's own time.
const createClock = `
create schema clock;
create function clock.now() returns timestamptz language sql stable as $$ select current_setting('clock.now')::timestamptz $$`

// refreshAsProcessor refreshes by the test's clock. By the database's the day that is not over yet would be materialised, and
// miss what is stored of it without a note.
func refreshAsProcessor(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	const useClock = `select set_config('clock.now', $1, false), set_config('search_path', 'clock, pg_catalog, public', false)`
	if _, err := conn.Exec(ctx, useClock, now.Format(time.RFC3339Nano)); err != nil {
		return err
	}
	if _, err := migrations.RefreshLate(ctx, conn, now); err != nil {
		return err
	}
	_, err := migrations.RefreshCoarse(ctx, conn, now)
	return err
}

func pruneAsProcessor(ctx context.Context, conn *pgx.Conn, _ time.Time) error {
	for range batches {
		if _, err := migrations.PruneLive(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

const selectInexact = `
with raw as (
    select date_bin($1::interval, ts, timestamptz '2000-01-01 00:00:00+00') as bucket, count(*) as events, sum(cost_nano_usd) as cost, max(ts) as last
    from events group by 1
), used as (
    select bucket, sum(events) as events, sum(cost_nano_usd) as cost, max(last_ts) as last
    from %s group by 1
)
select format('%%s: events %%s, usage %%s', bucket, raw, used)
from raw full join used using (bucket)
where (raw.events, raw.cost, raw.last) is distinct from (used.events, used.cost, used.last)
  and bucket not in (select date_bin($1::interval, bucket, timestamptz '2000-01-01 00:00:00+00') from late_buckets)`

// readExact compares the usage relations with the events, all of one moment.
func readExact(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	for range 3 {
		snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		err := pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error {
			for view, width := range usageRelations {
				rows, _ := tx.Query(ctx, fmt.Sprintf(selectInexact, view), width)
				wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return err
				}
				if len(wrong) > 0 {
					return fmt.Errorf("%s is wrong at %v: %q", view, now, wrong)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
