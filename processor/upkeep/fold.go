package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// For how long sums by arrival are kept by the minute and by the quarter hour: each longer than the windows of alert rules that
// need them.
const (
	fineFor     = 2 * time.Hour
	middlingFor = 26 * time.Hour
)

// For how long spend and refused events are kept by the quarter hour, and as sums of a day (UTC) after that. Spend is needed by the
// quarter hour for the longest period of a cap that ends, a month in any time zone; refused events for a report of a quarter of a
// year.
const (
	keepSpendQuarters   = 40 * day
	keepRefusedQuarters = 100 * day
)

const (
	foldArrivals = `SELECT fold_arrivals($1, $2, $3, $4)`
	foldSpend    = `SELECT fold_spend($1, $2)`
	foldRefused  = `SELECT fold_refused_events($1, $2)`
)

// FoldArrivals makes the sums by arrival coarser as they grow older.
func (u *Upkeep) FoldArrivals(ctx context.Context, conn *pgx.Conn) error {
	minutes := u.now().Add(-fineFor).Truncate(15 * time.Minute)
	quarters := u.now().Add(-middlingFor).Truncate(time.Hour)
	return errors.Join(
		u.fold(ctx, conn, "arrivals", u.folded.WithLabelValues("arrivals"), foldArrivals, 1, 15, minutes),
		u.fold(ctx, conn, "arrivals", u.folded.WithLabelValues("arrivals"), foldArrivals, 15, 60, quarters),
	)
}

// FoldDays folds old spend and refused events into sums of a day.
func (u *Upkeep) FoldDays(ctx context.Context, conn *pgx.Conn) error {
	return errors.Join(
		u.fold(ctx, conn, "spend", u.folded.WithLabelValues("spend"), foldSpend, u.now().Add(-keepSpendQuarters).Truncate(day)),
		u.fold(ctx, conn, "refused_events", u.folded.WithLabelValues("refused_events"), foldRefused,
			u.now().Add(-keepRefusedQuarters).Truncate(day)),
	)
}

// fold calls a function of the database that folds as many rows as its last argument and returns how many it did.
func (u *Upkeep) fold(ctx context.Context, conn *pgx.Conn, table string, count prometheus.Counter, call string, args ...any) error {
	// The last parameter of every such function is how many rows it folds at most.
	args = append(args, u.slice)
	return u.slices(ctx, "fold", table, count, func() (n int64, err error) {
		err = conn.QueryRow(ctx, call, args...).Scan(&n)
		return n, err
	})
}

// One processor folds at a time: fold_sessions returns 0 while another one, or an erasure, holds its lock.
const foldSessions = `SELECT fold_sessions($1)`

// foldSessions moves what batches added to sessions into the list of sessions. Readers add the two up, so it may be late without
// being wrong.
func (u *Upkeep) foldSessions(ctx context.Context, conn *pgx.Conn) error {
	return u.fold(ctx, conn, "session_parts", u.foldedSessions, foldSessions)
}
