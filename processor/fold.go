package processor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// partsAtOnce bounds one transaction that folds.
const partsAtOnce = 20_000

const (
	foldSessionParts = `SELECT fold_sessions($1)`
	foldLiveParts    = `SELECT fold_usage_live($1)`
)

// foldSessions moves what batches added into the list of sessions.
func (p *Processor) foldSessions(ctx context.Context, conn *pgx.Conn) error {
	if err := fold(ctx, conn, foldSessionParts, p.metrics.folded); err != nil {
		return fmt.Errorf("fold sessions: %w", err)
	}
	return nil
}

// foldLive moves what batches added into the live sums.
func (p *Processor) foldLive(ctx context.Context, conn *pgx.Conn) error {
	if err := fold(ctx, conn, foldLiveParts, p.metrics.foldedLive); err != nil {
		return fmt.Errorf("fold live sums: %w", err)
	}
	return nil
}

// fold moves parts until there is little left of them. Readers add them to what they
// are folded into, so it may be late without being wrong.
func fold(ctx context.Context, conn *pgx.Conn, parts string, count prometheus.Counter) error {
	for {
		var folded int64
		if err := conn.QueryRow(ctx, parts, partsAtOnce).Scan(&folded); err != nil {
			return err
		}
		count.Add(float64(folded))
		if folded < partsAtOnce {
			return nil
		}
	}
}
