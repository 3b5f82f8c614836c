package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// reportInterval is how often long work is reported in the log.
const reportInterval = 30 * time.Second

// slices runs step until it works on fewer rows than a slice holds. step returns how many it worked on.
func (u *Upkeep) slices(ctx context.Context, work, table string, count prometheus.Counter, step func() (int64, error)) error {
	// rows is also in the error: what was done before it stays done.
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
