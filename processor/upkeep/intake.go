package upkeep

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// difference is a generated column: accepted less stored, duplicates, dead letters and refused.
const sumDifferences = `SELECT coalesce(sum(abs(difference)), 0)::bigint FROM intake WHERE difference <> 0`

// checkIntake measures how many records were taken from Kafka of which nothing is
// known: not stored, no duplicate, not put aside.
func (u *Upkeep) checkIntake(ctx context.Context, conn *pgx.Conn) error {
	difference, err := pgdb.Value[int64](ctx, conn, "compare intake with what became of it", sumDifferences)
	if err == nil {
		u.difference.Set(float64(difference))
	}
	return err
}
