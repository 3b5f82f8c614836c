package work

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
)

// Deps are what a Runner works with; the caller owns them.
type Deps struct {
	// Pool is best not the one that stores events: a job may hold a connection for long.
	Pool    *pgxpool.Pool
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Runner works on the kinds of jobs that were registered with it. Everything is registered before Run.
type Runner struct {
	id       string
	pool     *pgxpool.Pool
	log      *slog.Logger
	metrics  *metrics
	inserter *river.Client[pgx.Tx]
	workers  *river.Workers
	queues   map[string]river.QueueConfig
	periodic []*river.PeriodicJob

	// since is when this runner began to say that it is alive without a break.
	since time.Time
	// gone and settled are goneAfter and settledAfter; tests have less patience.
	gone, settled time.Duration
	hands         hands
}

// New returns a Runner. It does not touch the database.
func New(d Deps) (*Runner, error) {
	r := &Runner{
		id: "outlay-" + strings.ToLower(rand.Text()), pool: d.Pool, log: d.Log, metrics: newMetrics(d.Metrics),
		workers: river.NewWorkers(), queues: map[string]river.QueueConfig{}, gone: goneAfter, settled: settledAfter,
	}
	var err error
	if r.inserter, err = river.NewClient(riverpgxv5.New(d.Pool), &river.Config{Schema: migrations.RiverSchema, Logger: quiet(d.Log, d.Pool)}); err != nil {
		return nil, fmt.Errorf("make the job queue's client: %w", err)
	}
	return r, nil
}

const (
	// softStop is how long jobs in hand may go on after the runner was asked to stop, before their contexts end.
	softStop = 8 * time.Second
	// hardStop bounds the whole stop.
	hardStop = softStop + 5*time.Second
	// pollInterval is how long a job may wait for a free worker to notice it.
	pollInterval = 500 * time.Millisecond
	// riverRescue is when River itself takes up a job of a runner that is gone. Ours does it in seconds; see rescue.
	riverRescue = 48 * time.Hour
)

// newClient returns a client that works on the registered kinds. It polls instead of listening: it needs no connection of its
// own, and there is nothing to mend after a restart of the database.
func (r *Runner) newClient() (*river.Client[pgx.Tx], error) {
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		ID: r.id, Schema: migrations.RiverSchema, Logger: quiet(r.log, r.pool),
		Queues: r.queues, Workers: r.workers, PeriodicJobs: r.periodic,
		PollOnly: true, FetchPollInterval: pollInterval,
		JobTimeout: defaultTimeout, RescueStuckJobsAfter: riverRescue, SoftStopTimeout: softStop,
		CompletedJobRetentionPeriod: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("make the job queue's client: %w", err)
	}
	return client, nil
}

// Run works until ctx ends, and returns nil then. Its stop order: no job is taken any more, those in hand finish or are put
// back, the leadership is given up, and the runner says that it is gone.
func (r *Runner) Run(ctx context.Context) error {
	if len(r.queues) == 0 {
		<-ctx.Done()
		return nil
	}
	alive, gone := context.WithCancel(context.WithoutCancel(ctx))
	defer gone()
	var g errgroup.Group
	g.Go(func() error {
		r.sayAlive(alive)
		return nil
	})
	g.Go(func() error {
		defer gone()
		return r.work(ctx)
	})
	return g.Wait()
}

// work runs the client from when the database answers until ctx ends.
func (r *Runner) work(ctx context.Context) error {
	client, err := r.start(ctx)
	if client == nil {
		return err
	}
	<-ctx.Done()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hardStop)
	defer cancel()
	if err := client.Stop(stopCtx); err != nil {
		r.log.WarnContext(stopCtx, "jobs in hand did not end in time; they will be taken up again", "error", err)
	}
	return nil
}

// startRetry is the time between two tries to start while the database is away.
const startRetry = time.Second

// start returns the running client, or nil when ctx ended before the database answered.
func (r *Runner) start(ctx context.Context) (*river.Client[pgx.Tx], error) {
	for reported := false; ; reported = true {
		client, err := r.newClient()
		if err != nil {
			return nil, err
		}
		err = client.Start(context.WithoutCancel(ctx))
		if err == nil {
			return client, nil
		}
		if !reported {
			r.log.WarnContext(ctx, "jobs wait for the database", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(startRetry):
		}
	}
}
