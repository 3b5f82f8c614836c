package migrations

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/advisory"
)

// RefreshCoarse brings hours and days up to what is materialised of the quarter hours, which a policy of TimescaleDB sees to, and makes
// anew of the refresh window what was made before the finer sums were all there, or has changed since. It is meant to be called every
// minute or so, by any number of processors: one of them works, the others return at once. Until it has, what is young is answered
// from the finer sums. It reports whether it did its work.
func RefreshCoarse(ctx context.Context, conn *pgx.Conn, now time.Time) (done bool, err error) {
	edition, err := editionKept(ctx, conn)
	if err != nil || edition != Community {
		return err == nil, err
	}
	locked, err := tryLock(ctx, conn, advisory.RefreshRollups)
	if err != nil || !locked {
		return false, err
	}
	defer freeLock(ctx, conn, advisory.RefreshRollups)
	err = unhurried(ctx, conn, func() error { return refreshCoarse(ctx, conn, now) })
	if hasCode(err, lockNotAvailable) { // Somebody refreshes by hand.
		return false, nil
	}
	return err == nil, err
}

func refreshCoarse(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	h, err := readHorizon(ctx, conn, now)
	if err != nil {
		return err
	}
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
		to := finer.Truncate(l.width)
		if mark.Before(to) {
			if err := l.refreshSpan(ctx, conn, span{mark, to}, true); err != nil {
				return err
			}
		}
		// TimescaleDB knows what has changed below.
		if from := h.oldest.Truncate(l.width); from.Before(to) {
			if err := l.refreshSpan(ctx, conn, span{from, to}, false); err != nil {
				return err
			}
		}
		if finer, err = l.watermark(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}
