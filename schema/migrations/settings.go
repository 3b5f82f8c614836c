package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// applySettings makes the database keep what opt asks for, all of it or nothing.
func applySettings(ctx context.Context, conn *pgx.Conn, edition Edition, opt Options) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := keepHorizons(ctx, tx, opt); err != nil {
			return err
		}
		if edition == Plain {
			return nil
		}
		if err := setChunkInterval(ctx, tx, opt.ChunkInterval); err != nil {
			return err
		}
		if edition == Apache {
			return nil
		}
		return applyPolicies(ctx, tx, opt)
	})
	if err != nil {
		return fmt.Errorf("apply settings: %w", err)
	}
	if edition != Community && opt.RawRetention > 0 {
		opt.Log.WarnContext(ctx, "this edition has no aggregates of its own: sums go when the raw events go",
			"edition", edition, "raw_retention", opt.RawRetention)
	}
	return nil
}

// What an earlier and shorter retention dropped stays dropped, so a change of retention leaves a mark behind it.
const updateHorizons = `
update schema_settings set
    raw_dropped_before = case when raw_retention is distinct from nullif($3::interval, '0')
                              then greatest(raw_dropped_before, now() - raw_retention) else raw_dropped_before end,
    late_window = $1, refresh_window = $2, raw_retention = nullif($3::interval, '0'), updated_at = now()
returning raw_dropped_before::text, now() - $2::interval < raw_dropped_before, coalesce((
    select format('account %s keeps events for %s days, and those before %s may be gone', account_id, retention_days, deleted_before)
    from account_retention
    where make_interval(days => retention_days) < $2::interval + interval '1 day' or now() - $2::interval < deleted_before
    limit 1), '')`

// keepHorizons stores the horizons for the jobs, and refuses a refresh window that reaches into dropped events.
func keepHorizons(ctx context.Context, tx pgx.Tx, opt Options) error {
	var dropped, account string
	var erases bool
	err := tx.QueryRow(ctx, updateHorizons, opt.LateWindow, opt.RefreshWindow, opt.RawRetention).Scan(&dropped, &erases, &account)
	if err != nil {
		return fmt.Errorf("store horizons: %w", err)
	}
	if erases {
		return fmt.Errorf("%w: the refresh window of %v reaches behind %s, before which raw events may be gone under an earlier retention",
			ErrHorizons, opt.RefreshWindow, dropped)
	}
	if account != "" {
		return fmt.Errorf("%w: the refresh window of %v reaches too far: %s", ErrHorizons, opt.RefreshWindow, account)
	}
	return nil
}

const chunkInterval = `select set_chunk_time_interval('events', $1::interval)`

func setChunkInterval(ctx context.Context, tx pgx.Tx, d time.Duration) error {
	if _, err := tx.Exec(ctx, chunkInterval, d); err != nil {
		return fmt.Errorf("set chunk interval: %w", err)
	}
	return nil
}
