package work

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// goneAfter is the silence after which a runner is taken for gone; it says that it is alive five times as often. A runner that
// wakes up later finds its tries given up.
const goneAfter = 15 * time.Second

// sayAlive says so until ctx ends, and looks meanwhile after the jobs of those who do not, and how long jobs wait.
func (r *Runner) sayAlive(ctx context.Context) {
	tick := time.NewTicker(r.gone / 5)
	defer tick.Stop()
	for {
		if err := r.beat(ctx); err != nil && ctx.Err() == nil {
			r.since = time.Time{}
			r.log.DebugContext(ctx, "job upkeep failed", "error", err)
		}
		select {
		case <-ctx.Done():
			r.sayGone(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

const upsertRunner = `
INSERT INTO job_runners (runner_id, seen_at) VALUES ($1, now()) ON CONFLICT (runner_id) DO UPDATE SET seen_at = now()`

func (r *Runner) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneAfter)
	defer cancel()
	if _, err := r.pool.Exec(ctx, upsertRunner, r.id); err != nil {
		return fmt.Errorf("say that this runner is alive: %w", err)
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	// After a restart of the database nobody has said anything yet, and nobody is to be taken for gone.
	if time.Since(r.since) > r.gone {
		if err := r.rescue(ctx); err != nil {
			return err
		}
	}
	return r.measureWaiting(ctx)
}

const deleteRunner = `DELETE FROM job_runners WHERE runner_id = $1 OR seen_at < now() - interval '1 day'`

func (r *Runner) sayGone(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	// It is noticed without as well, only later.
	_, _ = r.pool.Exec(ctx, deleteRunner, r.id)
}

const selectWaiting = `
SELECT kind, count(*), greatest(0, extract(epoch FROM now() - min(scheduled_at)))::float8
FROM river.river_job WHERE state IN ('available', 'retryable', 'scheduled') AND scheduled_at <= now()
GROUP BY kind`

func (r *Runner) measureWaiting(ctx context.Context) error {
	for kind := range r.queues {
		r.metrics.waiting.WithLabelValues(kind).Set(0)
		r.metrics.oldest.WithLabelValues(kind).Set(0)
	}
	rows, _ := r.pool.Query(ctx, selectWaiting)
	var (
		kind  string
		count int64
		age   float64
	)
	_, err := pgx.ForEachRow(rows, []any{&kind, &count, &age}, func() error {
		if _, known := r.queues[kind]; known {
			r.metrics.waiting.WithLabelValues(kind).Set(float64(count))
			r.metrics.oldest.WithLabelValues(kind).Set(age)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure how long jobs wait: %w", err)
	}
	return nil
}
