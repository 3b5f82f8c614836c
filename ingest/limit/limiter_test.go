package limit

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// fakeClock stands still until it is moved.
type fakeClock struct{ nano atomic.Int64 }

func (c *fakeClock) now() time.Time            { return time.Unix(0, c.nano.Load()) }
func (c *fakeClock) move(d time.Duration)      { c.nano.Add(int64(d)) }
func (c *fakeClock) set(t time.Time)           { c.nano.Store(t.UnixNano()) }
func (c *fakeClock) window() (start time.Time) { return c.now().Truncate(time.Minute) }

// world is a database that can be cut off, a clock, and replicas.
type world struct {
	t       testing.TB
	pool    *pgxpool.Pool
	down    atomic.Bool
	clock   *fakeClock
	account schema.ID
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: &fakeClock{}, account: schema.NewID(time.Now())}
	w.clock.set(time.Now().Truncate(time.Minute).Add(10 * time.Second))
	cfg, err := pgxpool.ParseConfig(schematest.Database(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 6
	cfg.ConnConfig.User, cfg.ConnConfig.Password = "outlay_ingest", schematest.TierPassword
	cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if w.down.Load() {
			return errors.New("cut off")
		}
		return nil
	}
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return !w.down.Load(), nil }
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	return w
}

func (w *world) deps() Deps {
	return Deps{Pool: w.pool, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: w.clock.now}
}

// patience is how long the database may take on a busy machine. It is not away.
const patience = time.Minute

// limiter is one of n replicas whose calls are made but whose watch is not kept:
// the count of replicas and the clock are the test's.
func (w *world) limiter(n int64) *Limiter {
	w.t.Helper()
	l := New(DefaultConfig(), w.deps())
	l.bank.timeout = patience
	l.replicas.Store(n)
	ctx, cancel := context.WithCancel(context.Background())
	l.queue.open()
	var serving sync.WaitGroup
	serving.Go(func() { l.serve(ctx) })
	w.t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	l.away.Store(false)
	return l
}

func (w *world) limiters(n int) []*Limiter {
	w.t.Helper()
	all := make([]*Limiter, n)
	for i := range all {
		all[i] = w.limiter(int64(n))
	}
	return all
}

// flood sends requests of batch events each through the limiters from 16 clients,
// weighted, until total events were asked for. It returns how many were admitted.
func (w *world) flood(limiters []*Limiter, plan account.Plan, total, batch int64, weights ...int) int64 {
	w.t.Helper()
	var (
		admitted, asked atomic.Int64
		clients         sync.WaitGroup
		choice          []*Limiter
	)
	for i, l := range limiters {
		weight := 1
		if i < len(weights) {
			weight = weights[i]
		}
		for range weight {
			choice = append(choice, l)
		}
	}
	for client := range uint64(16) {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(client, 1))
			for asked.Add(batch) <= total {
				if s := choice[r.IntN(len(choice))].Take(w.account, plan, batch); s.Allowed {
					admitted.Add(batch)
				}
			}
		})
	}
	clients.Wait()
	return admitted.Load()
}

// Under four times the load, replicas together admit the limit, within 5 percent,
// in every window, however the load is spread over them and in whatever batches.
func TestReplicasTogetherAdmitTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan     account.Plan
		limit    int64
		replicas int
		batch    int64
		weights  []int
	}{
		"one":             {account.Pro, 6000, 1, 1, nil},
		"three":           {account.Pro, 6000, 3, 1, nil},
		"uneven":          {account.Pro, 6000, 3, 1, []int{90, 9, 1}},
		"one gets all":    {account.Pro, 6000, 3, 1, []int{1, 0, 0}},
		"twelve":          {account.Pro, 6000, 12, 1, nil},
		"batches of 20":   {account.Pro, 6000, 3, 20, nil},
		"batches of 1000": {account.Pro, 6000, 3, 1000, nil},
		"free":            {account.Free, 60, 3, 1, nil},
		"free in batches": {account.Free, 60, 3, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			limiters := w.limiters(c.replicas)
			for range 2 {
				admitted := w.flood(limiters, c.plan, 4*c.limit, c.batch, c.weights...)
				t.Logf("admitted %d of %d, %.1f %%", admitted, c.limit, 100*float64(admitted)/float64(c.limit))
				// A batch that does not fit leaves less than itself in each hand.
				low := c.limit*95/100 - (c.batch-1)*int64(c.replicas)
				if c.limit < 1000 {
					low = c.limit - c.batch + 1
				}
				if admitted < low || admitted > c.limit*105/100 {
					t.Errorf("admitted %d, want %d to %d", admitted, low, c.limit*105/100)
				}
				for _, l := range limiters {
					if s := l.Take(w.account, c.plan, c.limit); s.Allowed || c.batch == 1 && s.Remaining > c.limit/10 {
						t.Errorf("after the flood: %+v", s)
					}
				}
				w.nextWindow(limiters)
			}
		})
	}
}

// nextWindow lets the minute end. Meanwhile a replica that a busy database has kept
// waiting would have found it again.
func (w *world) nextWindow(limiters []*Limiter) {
	w.clock.move(time.Minute)
	for _, l := range limiters {
		l.found(w.t.Context())
	}
}

// A replica that sees little of an account does not keep the others from
// using nearly all of it: nobody is refused before 95 percent are used.
func TestIdleReplicasHoldLittleBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limiters := w.limiters(3)
	for _, l := range limiters[1:] {
		for range 40 {
			if s := l.Take(w.account, account.Pro, 1); !s.Allowed {
				t.Fatalf("refused at the start: %+v", s)
			}
		}
	}
	admitted := int64(80)
	for limiters[0].Take(w.account, account.Pro, 1).Allowed {
		admitted++
	}
	if admitted < 5700 || admitted > 6300 {
		t.Errorf("refused after %d of 6000", admitted)
	}
	t.Logf("refused after %d of 6000", admitted)
}

// The numbers of an answer are those of the window, and count down to a refusal
// that says when to come back.
func TestStandingCountsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.limiter(1)
	reset := w.clock.window().Add(time.Minute).Unix()
	for left := int64(59); left >= 0; left-- {
		want := Standing{Allowed: true, Limit: 60, Remaining: left, Reset: reset, RetryAfter: 50*time.Second + clockMargin}
		if got := l.Take(w.account, account.Free, 1); got != want {
			t.Fatalf("standing = %+v, want %+v", got, want)
		}
	}
	want := Standing{Allowed: false, Limit: 60, Remaining: 0, Reset: reset, RetryAfter: 50*time.Second + clockMargin}
	if got := l.Take(w.account, account.Free, 1); got != want {
		t.Errorf("standing = %+v, want %+v", got, want)
	}
	if got := testutil.ToFloat64(l.metrics.decisions[allowed]); got != 60 {
		t.Errorf("allowed counter = %v, want 60", got)
	}
	if got := testutil.ToFloat64(l.metrics.decisions[refused]); got != 1 {
		t.Errorf("refused counter = %v, want 1", got)
	}
}

// What does not fit is refused as a whole and leaves what is left to smaller
// requests; what is given back can be taken again.
func TestBatchesAreTakenWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.limiter(1)
	for _, step := range []struct {
		n         int64
		allowed   bool
		remaining int64
	}{{50, true, 10}, {11, false, 10}, {61, false, 10}, {9, true, 1}, {2, false, 1}, {1, true, 0}, {1, false, 0}} {
		if s := l.Take(w.account, account.Free, step.n); s.Allowed != step.allowed || s.Remaining != step.remaining {
			t.Fatalf("take %d: %+v, want %+v", step.n, s, step)
		}
	}
	l.Return(w.account, 3)
	if s := l.Take(w.account, account.Free, 3); !s.Allowed {
		t.Errorf("what was given back cannot be taken: %+v", s)
	}
}

// A client that waits as long as it is told is let through by every replica,
// whenever it was refused and however wrong the replicas' clocks are.
func TestObedientClientIsNotRefusedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skews := []time.Duration{0, 7 * time.Second, -13 * time.Second}
	limiters := w.limiters(len(skews))
	for i, l := range limiters {
		l.clock.now = func() time.Time { return w.clock.now().Add(skews[i]) }
		// The database's clock is the one without skew, up to some milliseconds.
		sent := l.clock.now()
		l.clock.set(w.clock.now(), sent, sent.Add(30*time.Millisecond))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		w.clock.set(w.clock.window().Add(time.Minute + time.Duration(r.Int64N(int64(58*time.Second)))))
		w.flood(limiters, account.Free, 240, 1)
		for i := range limiters {
			s := limiters[i].Take(w.account, account.Free, 1)
			if s.Allowed || s.Reset != limiters[0].Take(w.account, account.Free, 1).Reset {
				t.Fatalf("at %v: %+v", w.clock.now(), s)
			}
			// The header has whole seconds, rounded up.
			refused := w.clock.now()
			w.clock.move(time.Duration(math.Ceil(s.RetryAfter.Seconds())) * time.Second)
			for j, other := range limiters {
				if back := other.Take(w.account, account.Free, 1); !back.Allowed || back.Reset != s.Reset+windowSeconds {
					t.Fatalf("refused at %v by %d, came back at %v to %d: %+v", refused, i, w.clock.now(), j, back)
				}
			}
			if waited := w.clock.now().Unix() - s.Reset; waited > 1 {
				t.Errorf("had to wait %d s after the window's end", waited)
			}
			w.flood(limiters, account.Free, 240, 1)
		}
	}
}

// A changed plan is obeyed at once. What was used stays used.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.limiter(1)
	if admitted := w.flood([]*Limiter{l}, account.Free, 100, 1); admitted != 60 {
		t.Fatalf("admitted %d, want 60", admitted)
	}
	admitted := w.flood([]*Limiter{l}, account.Pro, 12_000, 1)
	if admitted < 5880 || admitted > 6000 {
		t.Errorf("admitted %d after the upgrade, want 5940", admitted)
	}
	if s := l.Take(w.account, account.Enterprise, 1); !s.Allowed {
		t.Errorf("after another upgrade: %+v", s)
	}
	if s := l.Take(w.account, account.Free, 1); s.Allowed || s.Limit != 60 {
		t.Errorf("after the downgrade: %+v", s)
	}
}
