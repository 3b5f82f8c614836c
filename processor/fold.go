package processor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// partsAtOnce bounds one transaction of foldSessions.
const partsAtOnce = 20_000

const foldParts = `SELECT fold_sessions($1)`

// foldSessions moves what batches added into the list of sessions, until there is
// little left of it. Readers add up both, so it may be late without being wrong.
func (p *Processor) foldSessions(ctx context.Context, conn *pgx.Conn) error {
	for {
		var folded int64
		if err := conn.QueryRow(ctx, foldParts, partsAtOnce).Scan(&folded); err != nil {
			return fmt.Errorf("fold sessions: %w", err)
		}
		p.metrics.folded.Add(float64(folded))
		if folded < partsAtOnce {
			return nil
		}
	}
}
