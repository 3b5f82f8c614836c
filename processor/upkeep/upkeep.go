// Package upkeep keeps the tables that the processor writes from growing without end: rows that nobody needs any more are
// deleted, and fine sums that only long ranges still need are folded into coarser ones. Everything works in slices, each a
// transaction of its own, so that a backlog of any size is worked off and no statement runs into its timeout. Any number of
// processors may run it at the same time. The retention of events themselves is in schema/migrations.
package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// reportInterval is how often long work is reported in the log.
const reportInterval = 30 * time.Second

// Upkeep deletes and folds old rows.
type Upkeep struct {
	log *slog.Logger
	now func() time.Time
	// slice is how many rows one statement deletes or folds at most.
	slice   int64
	deleted *prometheus.CounterVec
	folded  *prometheus.CounterVec
}

// New returns the upkeep of one processor.
func New(metrics prometheus.Registerer, log *slog.Logger, now func() time.Time) *Upkeep {
	f := promauto.With(metrics)
	u := &Upkeep{
		log: log, now: now, slice: 10_000, // Less than a second's work, also for a slow disk.
		deleted: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_processor_deleted_rows_total",
			Help: "Rows deleted because nobody needs them any more, by table.",
		}, []string{"table"}),
		folded: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_processor_folded_rows_total",
			Help: "Rows of old sums folded into coarser ones, by table.",
		}, []string{"table"}),
	}
	for _, r := range rules {
		u.deleted.WithLabelValues(r.table)
	}
	for _, table := range []string{"arrivals", "refused_events", "spend"} {
		u.folded.WithLabelValues(table)
	}
	return u
}

// slices runs step until it works on fewer rows than a slice holds. step returns how many it worked on.
func (u *Upkeep) slices(ctx context.Context, work, table string, count prometheus.Counter, step func() (int64, error)) error {
	var rows int64
	began := u.now()
	for reported := began; ; {
		n, err := step()
		if err != nil {
			return fmt.Errorf("%s old rows of %s, %d done: %w", work, table, rows, err)
		}
		rows += n
		count.Add(float64(n))
		if n < u.slice {
			break
		}
		if now := u.now(); now.Sub(reported) >= reportInterval {
			reported = now
			u.log.InfoContext(ctx, "old rows are being worked off", "work", work, "table", table, "rows", rows, "took", now.Sub(began))
		}
	}
	if rows >= u.slice {
		u.log.InfoContext(ctx, "old rows worked off", "work", work, "table", table, "rows", rows, "took", u.now().Sub(began))
	}
	return nil
}

// rowsOf returns a step that runs a statement and counts the rows that it affects.
func rowsOf(ctx context.Context, conn *pgx.Conn, statement string, args ...any) func() (int64, error) {
	return func() (int64, error) {
		tag, err := conn.Exec(ctx, statement, args...)
		return tag.RowsAffected(), err
	}
}
