package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// applyPolicies gives the jobs of TimescaleDB their times.
func applyPolicies(ctx context.Context, tx pgx.Tx, opt Options) error {
	if err := applyRefresh(ctx, tx, opt.RefreshWindow); err != nil {
		return err
	}
	if err := applyColumnstore(ctx, tx, opt.CompressAfter); err != nil {
		return err
	}
	return removeRetention(ctx, tx)
}

const hasRefreshPolicy = `
select exists (
    select from timescaledb_information.jobs
    where proc_name = 'policy_refresh_continuous_aggregate' and hypertable_schema = '` + aggregates + `' and hypertable_name = $1 and schedule_interval = $2
      and (config ->> 'start_offset')::interval = $3 and (config ->> 'end_offset')::interval = $4
      and config ->> 'buckets_per_batch' = '0')`

const removeRefreshPolicy = `select remove_continuous_aggregate_policy(('` + aggregates + `.' || $1)::regclass, if_exists => true)`

// One batch, all or nothing: batches would run the newest first, and what lies between two of them would be in no answer
// meanwhile, being below the watermark and not materialised yet.
const addRefreshPolicy = `
select alter_job(
    add_continuous_aggregate_policy(('` + aggregates + `.' || $1)::regclass, start_offset => $3::interval, end_offset => $4::interval,
        schedule_interval => $2::interval, initial_start => date_trunc('hour', now()) + $5::interval, buckets_per_batch => 0),
    retry_period => interval '30 seconds')`

// applyRefresh has the quarter hours materialised. What is made of them RefreshCoarse sees to: a policy would not ask whether
// they are there.
func applyRefresh(ctx context.Context, tx pgx.Tx, window time.Duration) error {
	const view, every, after = "usage_15m", 15 * time.Minute, 15 * time.Second // the full hour
	return ensurePolicy(ctx, tx, "refresh policy of "+view,
		statement{hasRefreshPolicy, []any{view, every, window, MaterializedAfter}},
		statement{removeRefreshPolicy, []any{view}},
		statement{addRefreshPolicy, []any{view, every, window, MaterializedAfter, after}})
}

const hasColumnstorePolicy = `
select exists (
    select from timescaledb_information.jobs
    where proc_name = 'policy_compression' and hypertable_name = 'events' and (config ->> 'compress_after')::interval = $1)`

const removeColumnstorePolicy = `call remove_columnstore_policy('events', if_exists => true)`

const addColumnstorePolicy = `call add_columnstore_policy('events', after => $1::interval)`

func applyColumnstore(ctx context.Context, tx pgx.Tx, after time.Duration) error {
	return ensurePolicy(ctx, tx, "columnstore policy",
		statement{hasColumnstorePolicy, []any{after}},
		statement{removeColumnstorePolicy, nil},
		statement{addColumnstorePolicy, []any{after}})
}

const removeRetentionPolicy = `select remove_retention_policy('events', if_exists => true)`

// removeRetention removes the policy that earlier versions had drop the raw events: it asked nobody whether the aggregates held
// them yet. DropExpired does.
func removeRetention(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, removeRetentionPolicy); err != nil {
		return fmt.Errorf("remove the retention policy: %w", err)
	}
	return nil
}

type statement struct {
	sql  string
	args []any
}

// ensurePolicy makes a policy anew unless it is as it should be: a new one starts its job at once and forgets how the
// runs before went.
func ensurePolicy(ctx context.Context, tx pgx.Tx, what string, has, remove, add statement) error {
	var right bool
	if err := tx.QueryRow(ctx, has.sql, has.args...).Scan(&right); err != nil {
		return fmt.Errorf("look for the %s: %w", what, err)
	}
	if right {
		return nil
	}
	if _, err := tx.Exec(ctx, remove.sql, remove.args...); err != nil {
		return fmt.Errorf("remove the %s: %w", what, err)
	}
	if _, err := tx.Exec(ctx, add.sql, add.args...); err != nil {
		return fmt.Errorf("add the %s: %w", what, err)
	}
	return nil
}
