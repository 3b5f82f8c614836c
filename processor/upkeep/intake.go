package upkeep

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const sumDifferences = `SELECT coalesce(sum(abs(difference)), 0)::bigint FROM intake WHERE difference <> 0`

// checkIntake measures how many records were taken from Kafka of which nothing is
// known: not stored, no duplicate, not put aside.
func (u *Upkeep) checkIntake(ctx context.Context, conn *pgx.Conn) error {
	var difference int64
	if err := conn.QueryRow(ctx, sumDifferences).Scan(&difference); err != nil {
		return fmt.Errorf("compare intake with what became of it: %w", err)
	}
	u.difference.Set(float64(difference))
	return nil
}
