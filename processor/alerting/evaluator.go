package alerting

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Config sets how rules are checked.
type Config struct {
	// Interval is how often all rules are checked.
	Interval time.Duration `name:"alert-interval" default:"10s" help:"How often alert rules are checked, at most 30s."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{Interval: 10 * time.Second} }

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	if c.Interval < time.Second || c.Interval > 30*time.Second {
		return errors.New("--alert-interval must be between 1s and 30s")
	}
	return nil
}

// Deps are what an Evaluator works with; the caller owns them.
type Deps struct {
	// Pool gives one connection at a time.
	Pool *pgxpool.Pool
	// Topic is where the events come from that have to be stored first.
	Topic   string
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now is the clock of windows and incidents; leases go by the database's.
	Now func() time.Time
}

// Evaluator checks the rules while its process is the leader.
type Evaluator struct {
	// cfg was validated by the caller.
	cfg  Config
	pool *pgxpool.Pool
	// topic is the one whose completeness rules wait for.
	topic string
	// leader is asked before each check, and again in every transaction that writes what was found.
	leader leader
	// known is a cache by rule, used by one goroutine.
	known   map[schema.ID]knownPast
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
}

// New returns an Evaluator. Its configuration was validated.
func New(cfg Config, d Deps) *Evaluator {
	return &Evaluator{
		cfg: cfg, pool: d.Pool, topic: d.Topic, leader: leader{d.Pool, schema.NewID(d.Now())}, known: map[schema.ID]knownPast{},
		metrics: newMetrics(d.Metrics), log: d.Log, now: d.Now,
	}
}

// takeOverInterval is how often a processor that is not the leader tries to become it.
const takeOverInterval = 2 * time.Second

// resignTimeout bounds how long giving up the lease may take.
const resignTimeout = 2 * time.Second

// Run checks the rules until ctx ends, whenever this processor is the leader. It returns nil.
func (w *Evaluator) Run(ctx context.Context) error {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
		defer cancel()
		if err := w.leader.resign(ctx); err != nil {
			w.log.DebugContext(ctx, "lease not given up", "error", err)
		}
	}()
	// leading is what the last round found, for the log and the gauge.
	leading := false
	for {
		err := w.leader.renew(ctx)
		if err == nil {
			if !leading {
				w.log.InfoContext(ctx, "this processor checks the alert rules")
			}
			err = w.Check(ctx)
		}
		leads := !errors.Is(err, errNotLeader)
		if leading && !leads {
			w.log.InfoContext(ctx, "another processor checks the alert rules")
		}
		leading = leads
		if leads && err != nil && ctx.Err() == nil {
			w.metrics.errors.Inc()
			w.log.WarnContext(ctx, "alert rules not all checked", "error", err)
		}
		wait := takeOverInterval
		w.metrics.leading.Set(0)
		if leading {
			w.metrics.leading.Set(1)
			wait = w.cfg.Interval
		}
		if backoff.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// Check checks everything once. An account whose check fails does not keep the others
// from theirs. It returns errNotLeader when another process has become the leader meanwhile.
func (w *Evaluator) Check(ctx context.Context) error {
	start := time.Now()
	rules, err := alert.NewStore(w.pool).Enabled(ctx)
	if err != nil {
		return err
	}
	at, complete, err := w.asOf(ctx)
	if err != nil {
		return err
	}
	failed := w.endOrphanedIncidents(ctx, at)
	// Account by account: each is written in a transaction of its own.
	of := map[schema.ID][]alert.Rule{}
	for i := range rules {
		of[rules[i].AccountID] = append(of[rules[i].AccountID], rules[i])
	}
	for _, rules := range of {
		err := w.checkAccount(ctx, rules, at, complete)
		if errors.Is(err, errNotLeader) || ctx.Err() != nil {
			return err
		}
		failed = errors.Join(failed, err, w.leader.renew(ctx))
	}
	w.forget(at)
	failed = errors.Join(failed, w.checkCaps(ctx))
	w.metrics.duration.Observe(time.Since(start).Seconds())
	w.metrics.checked.Set(float64(w.now().Unix()))
	return failed
}

// behind is how far the stored events may be behind the clock before rules are checked
// against what is there all the same.
const behind = 5 * time.Minute

// Partitions that were never complete are left out: they are new, and would hold every rule back.
const selectComplete = `SELECT min(complete_until) FROM kafka_offsets WHERE topic = $1 AND complete_until > '-infinity'`

// asOf returns the time that is checked for: up to it, everything that arrived is stored, so that a processor that is behind does
// not look like agents that are silent. When it is far behind the clock, the time is now, and complete is false.
func (w *Evaluator) asOf(ctx context.Context) (at time.Time, complete bool, err error) {
	until, err := pgdb.Value[*time.Time](ctx, w.pool, "read how far events are stored", selectComplete, w.topic)
	if err != nil {
		return time.Time{}, false, err
	}
	now := w.now().UTC().Truncate(time.Microsecond)
	if until == nil || until.After(now) {
		return now, true, nil
	}
	w.metrics.behind.Set(now.Sub(*until).Seconds())
	if now.Sub(*until) > behind {
		return now, false, nil
	}
	return until.UTC(), true, nil
}
