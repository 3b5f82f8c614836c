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
		if err := keepRetention(ctx, tx, opt); err != nil {
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
		return applyColumnstore(ctx, tx, opt.CompressAfter)
	})
	if err != nil {
		return fmt.Errorf("apply settings: %w", err)
	}
	return nil
}

// What an earlier and shorter retention dropped stays dropped, so a change of retention leaves a mark behind it.
const updateRetention = `
update schema_settings set
    raw_dropped_before = case when raw_retention is distinct from nullif($1::interval, '0')
                              then greatest(raw_dropped_before, now() - raw_retention) else raw_dropped_before end,
    raw_retention = nullif($1::interval, '0'), updated_at = now()`

// keepRetention stores how long events are kept, for upkeep and for the readers of schema_settings.
func keepRetention(ctx context.Context, tx pgx.Tx, opt Options) error {
	if _, err := tx.Exec(ctx, updateRetention, opt.RawRetention); err != nil {
		return fmt.Errorf("store the retention: %w", err)
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

const (
	hasColumnstorePolicy = `
select exists (
    select from timescaledb_information.jobs
    where proc_name = 'policy_compression' and hypertable_name = 'events' and (config ->> 'compress_after')::interval = $1)`

	removeColumnstorePolicy = `call remove_columnstore_policy('events', if_exists => true)`

	addColumnstorePolicy = `call add_columnstore_policy('events', after => $1::interval)`
)

// applyColumnstore makes the policy of the columnstore anew unless it is as it should be: a new one starts its job at once and
// forgets how the runs before went.
func applyColumnstore(ctx context.Context, tx pgx.Tx, after time.Duration) error {
	var right bool
	err := tx.QueryRow(ctx, hasColumnstorePolicy, after).Scan(&right)
	if err == nil && !right {
		_, err = tx.Exec(ctx, removeColumnstorePolicy)
	}
	if err == nil && !right {
		_, err = tx.Exec(ctx, addColumnstorePolicy, after)
	}
	if err != nil {
		return fmt.Errorf("set the columnstore policy: %w", err)
	}
	return nil
}
