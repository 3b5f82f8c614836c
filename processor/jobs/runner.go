package jobs

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema/job"
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
	// id names the runner in the database; every start of a process has another.
	id      string
	pool    *pgxpool.Pool
	log     *slog.Logger
	metrics *metrics
	// kinds and repeats are filled by Handle and Every, and only read once Run was called.
	kinds   map[string]*kind
	repeats []repeat
	// deadAfter is the constant; tests have less patience.
	deadAfter time.Duration

	// claiming is held while jobs are claimed or rescued, so that a job that was just claimed is in running before a rescue looks.
	claiming sync.Mutex
	// running are the tries of this process. They are written to the database as its own, so the two may differ after an error.
	running running
	// healthy is whether the last heartbeat succeeded.
	healthy atomic.Bool
}

// New returns a Runner. It does not touch the database.
func New(d Deps) *Runner {
	return &Runner{
		id: "outlay-" + strings.ToLower(rand.Text()), pool: d.Pool, log: d.Log, metrics: newMetrics(d.Metrics),
		kinds: map[string]*kind{}, deadAfter: deadAfter, running: running{tries: map[tryKey]string{}, ended: make(chan struct{}, 1)},
	}
}

const (
	// softStop is how long running jobs may go on after the runner was asked to stop, before their contexts end.
	softStop = 8 * time.Second
	// hardStop bounds the rest of the stop.
	hardStop = 5 * time.Second
	// pollInterval is how long a job may wait for a free worker to notice it.
	pollInterval = 500 * time.Millisecond
	// statementTimeout bounds a claim and the record of how a try ended, which is made also when the try's own context is over.
	statementTimeout = 5 * time.Second
)

// Run works until ctx ends, and returns nil then. Its stop order: no job is claimed any more; running jobs finish or, when softStop
// is over, are put back; the heartbeat ends. While the database is away nothing is claimed.
func (r *Runner) Run(ctx context.Context) error {
	// The heartbeat outlasts ctx: while jobs finish, nobody else is to take them over.
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var loops, tries sync.WaitGroup
	loops.Go(func() { r.beat(beating) })
	for _, x := range r.repeats {
		loops.Go(func() { r.repeat(ctx, x) })
	}
	r.claimUntil(ctx, func(t *job.Try) { tries.Go(func() { r.try(working, t) }) })

	// Waiting for the tries needs a goroutine, because a WaitGroup has no timeout. It ends with the last try.
	ended := make(chan struct{})
	go func() {
		tries.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(softStop):
		stopWork()
		select {
		case <-ended:
		case <-time.After(hardStop):
			r.log.WarnContext(ctx, "running jobs did not end in time; others will take them over")
		}
	}
	stopBeating()
	loops.Wait()
	return nil
}

// claimUntil claims jobs and starts their tries until ctx ends.
func (r *Runner) claimUntil(ctx context.Context, start func(*job.Try)) {
	for failing := false; ; {
		err := r.claim(ctx, start)
		if err != nil && ctx.Err() == nil && !failing {
			r.log.WarnContext(ctx, "no jobs are begun until the database answers", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-r.running.ended:
		case <-time.After(pollInterval):
		}
	}
}

// claim starts as many tries as there are due jobs and free workers.
func (r *Runner) claim(ctx context.Context, start func(*job.Try)) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	r.claiming.Lock()
	defer r.claiming.Unlock()
	// free is how many more jobs of each kind of names this runner can work on.
	var names []string
	var free []int
	for name, k := range r.kinds {
		if n := k.workers - r.running.count(name); n > 0 {
			names, free = append(names, name), append(free, n)
		}
	}
	if len(names) == 0 {
		return nil
	}
	// The claim writes this runner's id, by which others see that somebody works on the job.
	claimed, err := job.NewStore(r.pool).Claim(ctx, r.id, r.deadAfter, names, free)
	if err != nil {
		return err
	}
	for i := range claimed {
		r.running.add(&claimed[i])
		start(&claimed[i])
	}
	return nil
}
