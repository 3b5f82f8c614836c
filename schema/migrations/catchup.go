package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// catchUpTimeout bounds the wait for policies that are refreshing.
const catchUpTimeout = time.Minute

// catchUp materialises what a database that was down, or did not run its jobs, for longer than the refresh window has left
// above the watermarks, and all there is where a level is new. The policy does not reach back to it, and the next refresh would raise the
// watermark over it: it would be in no answer any more. So it comes before the policy, which may run as soon as it is there.
func catchUp(ctx context.Context, conn *pgx.Conn, opt Options) error {
	deadline := time.Now().Add(catchUpTimeout)
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		err := catchUpOnce(ctx, conn, opt.RefreshWindow)
		if !hasCode(err, lockNotAvailable) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("aggregates are not caught up, somebody else is refreshing them: migrate again later: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("catch up with the events: %w", errors.Join(ctx.Err(), err))
		case <-poll.C:
		}
	}
}

// catchUpOnce is for policies of the refresh window that is in force, and for those of another that is to be.
func catchUpOnce(ctx context.Context, conn *pgx.Conn, window time.Duration) error {
	now := time.Now()
	h, err := readHorizon(ctx, conn, now)
	if err != nil {
		return err
	}
	oldest := later(h.oldest, now.Add(-window))
	return refreshAll(ctx, conn, h, func(_ level, mark time.Time) []span {
		if !mark.Before(oldest) {
			return nil
		}
		return []span{{mark, h.newest}}
	})
}
