package lease

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Config says what to do when nobody knows.
type Config struct {
	// OnDatabaseDown is "closed" or "open": whether events of capped agents are
	// refused or let through when the database cannot be asked.
	OnDatabaseDown string `name:"budget-on-database-down" default:"closed" enum:"closed,open" help:"Whether events of capped agents are refused (closed, answered 500) or let through (open) while the database cannot be asked and the share in hand is used up."`
	// Times are the same for all processes of an installation.
	Times budget.Times `kong:"-"`
}

// Deps are what a Gate works with; the caller owns them.
type Deps struct {
	Pool    *pgxpool.Pool
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
	// SinceBoot is the time since the machine has started, including the time in which it was suspended. Defaults to
	// the machine's.
	SinceBoot func() time.Duration
}

// Gate decides about every event whether its caps allow it. It is safe for
// concurrent use.
type Gate struct {
	cfg     Config
	pool    *pgxpool.Pool
	bank    bank
	log     *slog.Logger
	now     func() time.Time
	clock   clock
	times   budget.Times
	metrics *metrics
	refused *ledger

	// meters is replaced whole when caps change; a meter of a cap that stays is
	// carried over.
	meters atomic.Pointer[map[budget.Scope]*meter]
	// loading keeps two loads apart.
	loading sync.Mutex
	// leaving are meters of caps that were removed, until their shares are closed.
	leavingMu sync.Mutex
	leaving   []*meter

	replica atomic.Pointer[replica]
}

// New returns a Gate; Run keeps it going.
func New(cfg Config, d Deps) *Gate {
	g := &Gate{
		cfg: cfg, pool: d.Pool, bank: bank{d.Pool, callTimeout}, log: d.Log, now: d.Now, clock: clock{d.SinceBoot, d.Now},
		times: cfg.Times.OrDefault(), metrics: newMetrics(d.Metrics), refused: newLedger(),
	}
	if d.SinceBoot == nil {
		g.clock.boot = sinceBoot
	}
	g.becomeAnother()
	return g
}

// Run keeps caps fresh, says that this replica is alive, gives back what is not
// used, and at the end gives back everything.
func (g *Gate) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { g.beat(ctx) })
	wg.Go(func() { g.sweep(ctx) })
	watch := account.Watch{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, g.pool.Config().ConnConfig)
		},
		Load: func(ctx context.Context, conn *pgx.Conn) error { return g.load(ctx, conn) },
		Log:  g.log,
	}
	watch.Run(ctx)
	wg.Wait()
}

// Ready reports whether the caps were loaded and this replica has said once that
// it is alive. Before that nothing may pass.
func (g *Gate) Ready() bool { return g.meters.Load() != nil && g.replica.Load().seen }

// load reads every cap anew.
func (g *Gate) load(ctx context.Context, db pgdb.DB) error {
	g.loading.Lock()
	defer g.loading.Unlock()
	budgets, err := budget.NewStore(db).All(ctx)
	if err != nil {
		return err
	}
	old := map[budget.Scope]*meter{}
	if m := g.meters.Load(); m != nil {
		old = *m
	}
	meters := make(map[budget.Scope]*meter, len(budgets))
	for _, b := range budgets {
		m := old[b.Scope]
		if m == nil {
			m = &meter{budget: b}
		}
		m.update(b)
		meters[b.Scope] = m
	}
	g.meters.Store(&meters)
	for scope, m := range old {
		if meters[scope] == nil {
			m.remove()
			g.leave(m)
		}
	}
	g.metrics.caps.Set(float64(len(meters)))
	return nil
}

func (g *Gate) leave(m *meter) {
	g.leavingMu.Lock()
	defer g.leavingMu.Unlock()
	g.leaving = append(g.leaving, m)
}
