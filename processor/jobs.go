package processor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
)

// job is a piece of upkeep that every processor may run at any time: each is
// safe when several run it at once.
type job struct {
	name  string
	every time.Duration
	run   func(context.Context, *pgx.Conn) error
}

func (p *Processor) upkeep() []job {
	return []job{
		{"refresh_late", 2 * time.Second, p.refreshLate},
		{"refresh_coarse", 30 * time.Second, p.refreshCoarse},
		{"leases", 2 * time.Second, p.upkeepLeases},
		{"fold_sessions", time.Second / 2, p.foldSessions},
		{"fold_live", time.Second, p.foldLive},
		{"check_intake", 15 * time.Second, p.checkIntake},
		{"prune_live", time.Minute, p.pruneLive},
		{"delete_old", time.Minute, p.tables.Delete},
		{"fold_arrivals", time.Minute, p.tables.FoldArrivals},
		{"fold_days", time.Hour, p.tables.FoldDays},
		{"drop_expired", time.Hour, p.dropExpired},
		{"expire_accounts", time.Hour, p.expireAccounts},
		{"forget_replicas", time.Hour, forgetReplicas},
	}
}

// jobTimeout bounds one run.
const jobTimeout = 10 * time.Minute

// jobs runs the upkeep until ctx ends. A run that fails is counted, logged and
// tried again at its next time.
func (p *Processor) jobs(ctx context.Context) error {
	var g errgroup.Group
	for _, j := range p.upkeep() {
		p.metrics.jobErrors.WithLabelValues(j.name)
		g.Go(func() error {
			p.repeat(ctx, j)
			return nil
		})
	}
	return g.Wait()
}

func (p *Processor) repeat(ctx context.Context, j job) {
	for {
		if err := p.runJob(ctx, j); err != nil && ctx.Err() == nil {
			p.metrics.jobErrors.WithLabelValues(j.name).Inc()
			p.log.WarnContext(ctx, "job failed", "job", j.name, "error", err)
		}
		if sleep(ctx, j.every) != nil {
			return
		}
	}
}

func (p *Processor) runJob(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	conn, err := p.owner.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return j.run(ctx, conn.Conn())
}

const countLateBuckets = `SELECT count(*) FROM late_buckets`

// refreshLate brings the aggregates up to date where events arrived late.
func (p *Processor) refreshLate(ctx context.Context, conn *pgx.Conn) error {
	if _, err := migrations.RefreshLate(ctx, conn, p.now()); err != nil {
		return err
	}
	var waiting int64
	if err := conn.QueryRow(ctx, countLateBuckets).Scan(&waiting); err != nil {
		return fmt.Errorf("count late buckets: %w", err)
	}
	p.metrics.lateBuckets.Set(float64(waiting))
	return nil
}

// refreshCoarse brings hours and days up to what is materialised of the quarter hours.
func (p *Processor) refreshCoarse(ctx context.Context, conn *pgx.Conn) error {
	_, err := migrations.RefreshCoarse(ctx, conn, p.now())
	return err
}

// pruneLive deletes the live sums that an aggregate holds by now.
func (p *Processor) pruneLive(ctx context.Context, conn *pgx.Conn) error {
	n, err := migrations.PruneLive(ctx, conn)
	p.metrics.pruned.Add(float64(n))
	return err
}

// dropExpired drops raw events beyond their retention.
func (p *Processor) dropExpired(ctx context.Context, conn *pgx.Conn) error {
	n, err := migrations.DropExpired(ctx, conn, p.now())
	if n > 0 {
		p.log.InfoContext(ctx, "expired events dropped", "dropped", n)
	}
	return err
}

// expireAccounts deletes what is past the retention of each account, and what would
// outlive its events.
func (p *Processor) expireAccounts(ctx context.Context, conn *pgx.Conn) error {
	done, err := migrations.ExpireAccounts(ctx, conn, p.now())
	p.metrics.expired.WithLabelValues("events").Add(float64(done.Events))
	p.metrics.expired.WithLabelValues("sessions").Add(float64(done.Sessions))
	p.metrics.expired.WithLabelValues("share_links").Add(float64(done.Shares))
	p.metrics.expired.WithLabelValues("dead_letters").Add(float64(done.DeadLetters))
	p.metrics.expired.WithLabelValues("revisions").Add(float64(done.Revisions))
	if done != (migrations.Expired{}) {
		p.log.InfoContext(ctx, "retention of accounts kept", "events", done.Events, "sessions", done.Sessions,
			"share_links", done.Shares, "dead_letters", done.DeadLetters, "revisions", done.Revisions)
	}
	return err
}
