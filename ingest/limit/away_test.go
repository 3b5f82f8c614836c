package limit

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// used is what the database says was used of the present window.
func (w *world) used() (n int64) {
	w.t.Helper()
	err := w.pool.QueryRow(context.Background(), `SELECT used FROM rate_windows WHERE window_start = $1 AND account_id = $2`,
		w.clock.window(), w.account).Scan(&n)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// tell has a replica find the database, and waits until it has told it what it let
// through.
func (w *world) tell(l *Limiter) {
	w.t.Helper()
	window := l.accounts.find(w.account).window.Load()
	for window.inDebt() {
		l.found(w.t.Context())
		l.ask(window, 0) // What was taken since a call under way was sent.
		window.mu.Lock()
		call := window.call
		window.mu.Unlock()
		if call != nil {
			<-call.done
		}
	}
}

// While the database is away each replica goes on with its equal share, and nobody
// waits for it.
func TestEqualSharesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limiters := w.limiters(3)
	w.down.Store(true)
	// The first to notice says so; shares are free to use a little later.
	for _, l := range limiters {
		l.look(t.Context())
	}
	w.clock.move(rampTime)
	for range 3 {
		if admitted := w.flood(limiters, account.Pro, 24_000, 1); admitted < 5900 || admitted > 6300 {
			t.Errorf("admitted %d, want about 6000", admitted)
		}
		s := limiters[0].Take(w.account, account.Pro, 1)
		if s.Allowed || s.Remaining != 0 {
			t.Errorf("a share used up: %+v", s)
		}
		w.clock.move(time.Minute)
	}
	// One replica alone has its share only.
	if admitted := w.flood(limiters[:1], account.Pro, 24_000, 1); admitted != 2000 {
		t.Errorf("one replica admitted %d, want 2000", admitted)
	}
	for _, l := range limiters {
		if got := testutil.ToFloat64(l.metrics.away); got != 1 {
			t.Errorf("fallback gauge = %v, want 1", got)
		}
	}
	if testutil.ToFloat64(limiters[0].metrics.decisions[local]) == 0 || testutil.ToFloat64(limiters[0].metrics.callsFailed) == 0 {
		t.Error("local decisions and failed calls are not counted")
	}
}

// An outage in the middle of a window neither lets much more through than the
// limit nor much less, and what was let through meanwhile counts afterwards.
func TestOutageWithinAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limiters := w.limiters(3)
	admitted := w.flood(limiters, account.Pro, 2000, 1)
	w.down.Store(true)
	for _, l := range limiters {
		l.look(t.Context())
	}
	// A moment is not enough for others' share to be used up.
	if more := w.flood(limiters, account.Pro, 1500, 1); more > 300 {
		t.Errorf("admitted %d at the first moment of an outage", more)
	} else {
		admitted += more
	}
	w.clock.move(rampTime)
	admitted += w.flood(limiters, account.Pro, 3000-admitted, 1)
	if admitted != 3000 {
		t.Errorf("admitted %d of 3000 before the limit was reached", admitted)
	}
	w.down.Store(false)
	for _, l := range limiters {
		w.tell(l)
	}
	if used := w.used(); used < 3000 {
		t.Errorf("the database was told of %d of 3000", used)
	}
	admitted += w.flood(limiters, account.Pro, 24_000, 1)
	t.Logf("admitted %d of 6000", admitted)
	if admitted < 5700 || admitted > 6300 {
		t.Errorf("admitted %d, want 5700 to 6300", admitted)
	}
}

// An outage after the window was used up lets nothing through.
func TestOutageAfterTheLimitWasReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limiters := w.limiters(3)
	w.flood(limiters, account.Pro, 24_000, 1)
	w.down.Store(true)
	for _, l := range limiters {
		l.look(t.Context())
	}
	w.clock.move(rampTime)
	if admitted := w.flood(limiters, account.Pro, 24_000, 1); admitted > 60 {
		t.Errorf("admitted %d more", admitted)
	}
}

// heard is a log that tells when something was written to it.
type heard chan string

func (h heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h heard) WithGroup(string) slog.Handler            { return h }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	select {
	case h <- r.Message:
	default:
	}
	return nil
}

// Run counts the replicas, follows the database's clock, and leaves requests
// answered when it has ended. A wrong clock of its own changes nothing.
func TestRunFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.exec(`INSERT INTO ingest_replicas (replica_id) VALUES ($1)`, schema.NewID(time.Now()))
	}
	w.exec(`UPDATE ingest_replicas SET seen_at = now() - interval '1 minute' WHERE replica_id = (SELECT min(replica_id::text)::uuid FROM ingest_replicas)`)
	w.exec(`INSERT INTO rate_windows VALUES (now() - interval '5 minutes', $1, 7)`, w.account)
	l := w.limiter(1)
	found := make(heard, 1)
	l.log = slog.New(found)
	l.away.Store(true)
	l.clock.now = func() time.Time { return time.Now().Add(-time.Hour) }
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(ctx) })
	<-found
	if got := l.replicas.Load(); got != 3 {
		t.Errorf("%d replicas, want 3", got)
	}
	before := time.Now().Truncate(time.Minute).Add(time.Minute).Unix()
	s := l.Take(w.account, account.Pro, 1)
	if after := time.Now().Truncate(time.Minute).Add(time.Minute).Unix(); s.Reset < before || s.Reset > after {
		t.Errorf("the window ends at %d, want %d", s.Reset, before)
	}
	for {
		var past int
		if err := w.pool.QueryRow(ctx, `SELECT count(*) FROM rate_windows WHERE used = 7`).Scan(&past); err != nil {
			t.Fatal(err)
		}
		if past == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	watching.Wait()
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// Requests are answered before Run starts, while it runs and after it has ended.
func TestNobodyWaitsForAStoppedLimiter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := New(DefaultConfig(), w.deps())
	if s := l.Take(w.account, account.Pro, 100); !s.Allowed {
		t.Errorf("before Run: %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running, flooding sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	flooding.Go(func() { w.flood([]*Limiter{l}, account.Pro, 20_000, 1) })
	flooding.Go(func() { w.flood([]*Limiter{l}, account.Free, 1000, 1) })
	cancel()
	running.Wait()
	flooding.Wait()
	w.clock.move(time.Minute)
	if s := l.Take(w.account, account.Pro, 100); !s.Allowed {
		t.Errorf("after Run: %+v", s)
	}
}

// Accounts that went quiet are forgotten, so memory follows those that send.
func TestQuietAccountsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.down.Store(true)
	l := w.limiter(1)
	l.away.Store(true)
	for range 10_000 {
		l.Take(schema.NewID(time.Now()), account.Enterprise, 1)
	}
	l.settle(true)
	if n := len(*l.accounts.settled.Load()); n != 10_000 {
		t.Errorf("%d accounts known, want 10000", n)
	}
	w.clock.move(3 * time.Minute)
	l.Take(w.account, account.Enterprise, 1)
	l.settle(true)
	if n := len(*l.accounts.settled.Load()); n != 1 {
		t.Errorf("%d accounts known, want 1", n)
	}
}
