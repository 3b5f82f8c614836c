package migrations

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// RefreshCoarse brings hours and days up to what is materialised of the quarter hours, which a policy of TimescaleDB sees to. It is
// meant to be called every minute or so, by any number of processors: one of them works, the others return at once. Until it has,
// they are answered from the finer sums. It reports whether it did its work.
//
// What is younger than again is materialised once more; the zero time is none of it. Whoever refreshed an hour by hand, or as
// earlier versions did, may not have known that its quarter hours were not all there.
func RefreshCoarse(ctx context.Context, conn *pgx.Conn, again time.Time) (done bool, err error) {
	edition, err := editionKept(ctx, conn)
	if err != nil || edition != Community {
		return err == nil, err
	}
	locked, err := tryLock(ctx, conn, refreshLock)
	if err != nil || !locked {
		return false, err
	}
	defer freeLock(ctx, conn, refreshLock)
	err = unhurried(ctx, conn, func() error { return refreshCoarse(ctx, conn, again) })
	if hasCode(err, lockNotAvailable) { // Somebody refreshes by hand.
		return false, nil
	}
	return err == nil, err
}

func refreshCoarse(ctx context.Context, conn *pgx.Conn, again time.Time) error {
	all := levels()
	finer, err := all[0].watermark(ctx, conn)
	if err != nil {
		return err
	}
	for _, l := range all[1:] {
		mark, err := l.watermark(ctx, conn)
		if err != nil {
			return err
		}
		from, to := mark, finer.Truncate(l.width)
		if !again.IsZero() {
			from = earlier(mark, again.Truncate(l.width))
		}
		if from.Before(to) {
			if err := l.refresh(ctx, conn, []span{{from, to}}); err != nil {
				return err
			}
			if mark, err = l.watermark(ctx, conn); err != nil {
				return err
			}
		}
		finer = mark
	}
	return nil
}
