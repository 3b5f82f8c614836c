package limit

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// windowSeconds is the length of a window.
const windowSeconds = 60

// chunksPerReplica is into how many chunks a replica's equal share of a limit is
// cut. A replica holds at most one and a half chunks, and is at most one ahead of
// what it has asked for. So what idle replicas hold is at most 2.4 percent of a
// limit, and what is let through beyond it at most 1.6.
const chunksPerReplica = 64

// Deps are what a Limiter works with; the caller owns them.
type Deps struct {
	Pool    *pgxpool.Pool
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Limiter decides about every request whether the plan of its account allows it.
// It is safe for concurrent use.
type Limiter struct {
	cfg      Config
	bank     bank
	log      *slog.Logger
	clock    clock
	metrics  *metrics
	accounts accounts
	queue    queue

	// away says that the database does not answer: nobody waits for it.
	away atomic.Bool
	// awaySince is since when, in the clock's nanoseconds.
	awaySince atomic.Int64
	// replicas is how many ingest replicas there were when the database last
	// answered.
	replicas atomic.Int64
}

// New returns a Limiter. Until Run has reached the database it takes itself for
// the only replica.
func New(cfg Config, d Deps) *Limiter {
	l := &Limiter{
		cfg: cfg, bank: bank{d.Pool, callTimeout}, log: d.Log, clock: clock{now: d.Now},
		metrics: newMetrics(d.Metrics), queue: queue{wake: make(chan struct{}, 1)},
	}
	l.accounts.init()
	l.away.Store(true)
	l.replicas.Store(1)
	return l
}

// Take takes n events out of the account's present window, all or none.
func (l *Limiter) Take(id schema.ID, plan account.Plan, n int64) Standing {
	now := l.clock.unixNano()
	w := l.window(id, l.cfg.Of(plan), now)
	v := l.take(w, n, now)
	l.metrics.decisions[v].Inc()
	return l.standing(w, v, now)
}

// Return gives back events that were taken just before and were not let through
// after all.
func (l *Limiter) Return(id schema.ID, n int64) {
	if m := l.accounts.find(id); m != nil {
		m.window.Load().hand.Add(n)
	}
}

// window returns the account's present window.
func (l *Limiter) window(id schema.ID, limit, now int64) *window {
	start := now / int64(time.Second) / windowSeconds * windowSeconds
	m := l.accounts.find(id)
	if m != nil {
		if w := m.window.Load(); w.start == start && w.limit == limit {
			return w
		}
	}
	chunk := limit / (chunksPerReplica * l.replicas.Load())
	w, fresh := l.accounts.roll(id, func() *window { return newWindow(id, start, limit, chunk) })
	if fresh && w.owes() {
		// The others learn at once what this one lets through without asking.
		l.ask(w, 0)
	}
	return w
}

// take decides. The common case is one atomic subtraction.
func (l *Limiter) take(w *window, n, now int64) verdict {
	left, ok := w.take(n)
	if !ok {
		return l.takeSlowly(w, n, now)
	}
	if left < w.chunk/2 && !w.asking.Load() && w.rest.Load() > 0 {
		l.ask(w, w.chunk)
	}
	return allowed
}

// maxTries bounds how often one request waits for the database: others may take
// what was handed out before it can. One that loses so often is refused.
const maxTries = 50

func (l *Limiter) takeSlowly(w *window, n, now int64) verdict {
	for range maxTries {
		v, c, mine := w.decide(n, l.part(now))
		if v != undecided {
			return v
		}
		if mine {
			l.enqueue(w)
		}
		<-c.done // A call ends within callTimeout.
	}
	return refused
}

// rampTime is how long it takes after the database went away until a replica may
// use all of its share: others may be reaching the database, and be handed the
// same events. An absence of a second costs at most 5 percent.
const rampTime = 20 * time.Second

// part returns what part of what was left this replica may use without asking.
func (l *Limiter) part(now int64) part {
	ramp := min(max(0, now-l.awaySince.Load()), int64(rampTime))
	return part{away: l.away.Load(), replicas: l.replicas.Load(), permille: ramp * 1000 / int64(rampTime)}
}

// ask has the database asked for more in the background.
func (l *Limiter) ask(w *window, want int64) {
	if !l.away.Load() && w.open(want) {
		l.enqueue(w)
	}
}

// enqueue hands a window to serve. Without a serve nobody may wait for it.
func (l *Limiter) enqueue(w *window) {
	if !l.queue.add(w) {
		l.leave()
		w.finish()
	}
}
