package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// aggregates is the schema of the continuous aggregates that the usage relations are read from.
const aggregates = "aggregates"

// level is one of the usage relations. Its continuous aggregate has its name. It is made of what is materialised of the level before
// and of nothing else: to add what is younger, as TimescaleDB can, each refresh of a day would look at every event that is younger
// than the watermark of the quarter hours, those of more than an hour.
type level struct {
	view  string
	width time.Duration
	raw   bool // made from the events themselves, which may have been dropped
}

// levels returns the usage relations, each before the one that is made from it.
func levels() []level {
	return []level{
		{view: "usage_15m", width: 15 * time.Minute, raw: true},
		{view: "usage_hourly", width: time.Hour},
		{view: "usage_daily", width: day},
		{view: "usage_daily_agents", width: day},
	}
}

// horizon is what a refresh has to keep to.
type horizon struct {
	// newest is the end of the youngest bucket that may be materialised.
	newest time.Time
	// oldest is the start of the refresh window, which no policy reaches behind.
	oldest time.Time
	// raw is the time from which raw events are certain to be all there.
	raw time.Time
}

// The database's clock alone says what is young, because it is the clock of the policies: a note may go without a refresh
// only when no policy can have materialised its bucket. What is old is old by either clock. greatest passes over nulls.
const selectHorizon = `
select now() - $2::interval,
       greatest('epoch', raw_dropped_before, greatest($1, now()) - refresh_window),
       greatest('epoch', raw_dropped_before, greatest($1, now()) - raw_retention, (select max(deleted_before) from account_retention))
from schema_settings`

func readHorizon(ctx context.Context, conn *pgx.Conn, now time.Time) (horizon, error) {
	var h horizon
	err := conn.QueryRow(ctx, selectHorizon, now, MaterializedAfter).Scan(&h.newest, &h.oldest, &h.raw)
	if err != nil {
		return horizon{}, fmt.Errorf("read the horizons: %w", err)
	}
	return h, nil
}

const selectWatermark = `
select greatest('epoch', _timescaledb_functions.to_timestamp(_timescaledb_functions.cagg_watermark(mat_hypertable_id)))
from _timescaledb_catalog.continuous_agg
where user_view_schema = '` + aggregates + `' and user_view_name = $1`

// watermark returns the time below which the level answers with what is materialised, and above which with finer sums.
func (l level) watermark(ctx context.Context, conn *pgx.Conn) (time.Time, error) {
	var t time.Time
	if err := conn.QueryRow(ctx, selectWatermark, l.view).Scan(&t); err != nil {
		return time.Time{}, fmt.Errorf("read the watermark of %s: %w", l.view, err)
	}
	return t, nil
}

// In one piece, as the policy: later versions of TimescaleDB would make pieces of it, the newest first, and what lies behind them would
// be in no answer meanwhile.
const refreshView = `
call refresh_continuous_aggregate(('` + aggregates + `.' || $1)::regclass, $2::timestamptz, $3::timestamptz,
    force => $4, options => '{"buckets_per_batch": 0}')`

// refresh materialises the spans. By force, because what arrived late just as the policy moved on may be in no log of what to refresh.
func (l level) refresh(ctx context.Context, conn *pgx.Conn, spans []span) error {
	for _, s := range spans {
		if err := l.refreshSpan(ctx, conn, s, true); err != nil {
			return err
		}
	}
	return nil
}

// refreshSpan materialises what of a span has changed, or all of it by force.
func (l level) refreshSpan(ctx context.Context, conn *pgx.Conn, s span, force bool) error {
	if _, err := conn.Exec(ctx, refreshView, l.view, s.from, s.to, force); err != nil {
		return fmt.Errorf("refresh %s from %v to %v: %w", l.view, s.from, s.to, err)
	}
	return nil
}

// refreshAll materialises of each level the spans that wanted returns for it and its watermark, as far as they may be, each level
// before the one that is made from it. Spans above the watermark are widened down to it: the watermark rises with them, and what it
// passed over would be in no answer. For the same reason a level goes as far as the one that is made from it.
func refreshAll(ctx context.Context, conn *pgx.Conn, h horizon, wanted func(l level, mark time.Time) []span) error {
	all := levels()
	spans := make([][]span, len(all))
	var reach time.Time // of the level that is made from this one
	for i, l := range slices.Backward(all) {
		mark, err := l.watermark(ctx, conn)
		if err != nil {
			return err
		}
		spans[i] = l.within(h, fill(extend(wanted(l, mark), mark, reach), mark))
		if n := len(spans[i]); n > 0 {
			reach = spans[i][n-1].to
		}
	}
	for i, l := range all {
		if err := l.refresh(ctx, conn, spans[i]); err != nil {
			return err
		}
	}
	return nil
}

// within returns what of the spans may be materialised.
func (l level) within(h horizon, spans []span) (may []span) {
	var floor time.Time
	if l.raw {
		floor = h.raw.Add(l.width - 1).Truncate(l.width)
	}
	for _, s := range spans {
		s = span{later(s.from, floor), earlier(s.to, h.newest.Truncate(l.width))}
		if s.from.Before(s.to) {
			may = append(may, s)
		}
	}
	return may
}

// resetTimeout bounds the wait for a server that has gone away.
const resetTimeout = 5 * time.Second

// unhurried runs f, which may take as long as ctx: a refresh of a day in which millions of events arrived late takes longer than any
// other statement may.
func unhurried(ctx context.Context, conn *pgx.Conn, f func() error) error {
	if _, err := conn.Exec(ctx, `set statement_timeout = 0`); err != nil {
		return fmt.Errorf("set no timeout: %w", err)
	}
	err := f()
	if conn.IsClosed() {
		return err
	}
	resetCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTimeout)
	defer cancel()
	if _, resetErr := conn.Exec(resetCtx, `reset statement_timeout`); resetErr != nil {
		return errors.Join(err, fmt.Errorf("reset the timeout: %w", resetErr))
	}
	return err
}
