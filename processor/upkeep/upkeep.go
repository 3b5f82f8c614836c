// Package upkeep keeps the tables that the processor writes in order: continuous aggregates are refreshed, sums of sessions folded,
// leases of caps released, and rows that nobody needs any more deleted. Any number of processors run all of it at the same time.
// What deletes or folds works in slices, each a transaction of its own, so that a backlog of any size is worked off and no
// statement runs into its timeout.
package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/budget"
)

// Deps are what an Upkeep works with; the caller owns them.
type Deps struct {
	// Pool is signed in as the owner of the tables: TimescaleDB refreshes aggregates and drops chunks for nobody else.
	Pool *pgxpool.Pool
	// Topic is that of the events.
	Topic string
	// Times hold the age from which a silent replica is dead and its leases are released.
	Times   budget.Times
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Upkeep is the upkeep of one processor.
type Upkeep struct {
	Deps
	now func() time.Time
	log *slog.Logger
	// slice is how many rows one statement deletes or folds at most.
	slice int64
	metrics
}

// New returns the upkeep of one processor.
func New(d Deps) *Upkeep {
	return &Upkeep{
		Deps: d, now: d.Now, log: d.Log, metrics: newMetrics(d.Metrics),
		slice: 10_000, // Less than a second's work, also for a slow disk.
	}
}

// task is a piece of upkeep. Each is safe when several processors run it at once.
type task struct {
	name string
	// every is the pause between the end of a run and the next one.
	every time.Duration
	// run has a connection to itself, whose settings it puts back.
	run func(context.Context, *pgx.Conn) error
}

// tasks returns all of the upkeep. The intervals of tasks that readers or caps wait for are seconds; what only keeps tables small
// has minutes or hours.
func (u *Upkeep) tasks(kafka *kgo.Client) []task {
	return []task{
		// The first two are what readers of late events, and caps of dead replicas, wait for.
		{"refresh_rollups", 2 * time.Second, u.refreshRollups},
		{"leases", 2 * time.Second, func(ctx context.Context, conn *pgx.Conn) error { return u.releaseLeases(ctx, conn, kafka) }},
		{"fold_sessions", time.Second / 2, u.foldSessions},
		{"check_intake", 15 * time.Second, u.checkIntake},
		// From here on nobody waits: these keep tables small.
		{"delete_old", time.Minute, u.Delete},
		{"fold_arrivals", time.Minute, u.FoldArrivals},
		{"fold_days", time.Hour, u.FoldDays},
		{"drop_expired", time.Hour, u.dropExpired},
		{"expire_accounts", time.Hour, u.expireAccounts},
		{"forget_replicas", time.Hour, forgetReplicas},
	}
}

// taskTimeout bounds one run.
const taskTimeout = 10 * time.Minute

// Run runs all tasks until ctx ends. A run that fails is counted, logged and tried again at its next time. kafka is owned by the
// caller.
func (u *Upkeep) Run(ctx context.Context, kafka *kgo.Client) error {
	var running sync.WaitGroup
	for _, t := range u.tasks(kafka) {
		u.taskErrors.WithLabelValues(t.name)
		running.Go(func() { u.repeat(ctx, t) })
	}
	running.Wait()
	return nil
}

// repeat runs a task until ctx ends, with its interval between the end of a run and the next one.
func (u *Upkeep) repeat(ctx context.Context, t task) {
	for {
		if err := u.once(ctx, t); err != nil && ctx.Err() == nil {
			u.taskErrors.WithLabelValues(t.name).Inc()
			u.log.WarnContext(ctx, "upkeep task failed", "task", t.name, "error", err)
		}
		if backoff.Sleep(ctx, t.every) != nil {
			return
		}
	}
}

// once runs a task on a connection of its own.
func (u *Upkeep) once(ctx context.Context, t task) error {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	conn, err := u.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return t.run(ctx, conn.Conn())
}
