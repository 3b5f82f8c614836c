package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pruneAtOnce bounds the rows that one statement of PruneLive deletes.
const pruneAtOnce = 10_000

// The watermark only rises, so what is below the one of the snapshot is read by nobody who begins later.
const deleteMaterialized = `
delete from usage_live
where ctid = any (array(
    select ctid from usage_live where bucket < (select quarters from usage_watermarks) limit $1 for update skip locked))`

// PruneLive deletes the rows of usage_live that are not read any more, because an aggregate holds what they add up, and returns their
// number. It is meant to be called every minute or so, by any number of processors. A row that is just being written stays for the
// next time.
func PruneLive(ctx context.Context, conn *pgx.Conn) (int64, error) {
	for all := int64(0); ; {
		tag, err := conn.Exec(ctx, deleteMaterialized, pruneAtOnce)
		if err != nil {
			return all, fmt.Errorf("delete live sums that are materialised: %w", err)
		}
		all += tag.RowsAffected()
		if tag.RowsAffected() < pruneAtOnce {
			return all, nil
		}
	}
}
