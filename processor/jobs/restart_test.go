package jobs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/schematest/port"
)

// outage is longer than a runner tries to record how a job ended.
const outage = 2 * statementTimeout

// A runner goes on by itself after the database was killed and has come back: what was waiting, what it had in hand, and what is
// due at intervals. A runner that starts while the database is away waits for it.
func TestRunnerSurvivesTheDatabase(t *testing.T) {
	t.Parallel()
	own, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	cfg := postgres.Config{DataDir: t.TempDir(), Port: own.Port()}
	server := schematest.StartPostgres(t, cfg)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(t.Context(), conn, migrations.Options{ProcessorPassword: schematest.TierPassword, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	account := newAccount(t, pool)

	var ticks atomic.Int32
	inHand, back := make(chan struct{}, 10), make(chan struct{})
	start := func() *runner {
		r := newRunner(t, pool)
		r.deadAfter = 2 * time.Second
		r.Every(time.Second, "tick", func(context.Context) error { ticks.Add(1); return nil })
		Handle(r.Runner, Options{Wait: func(int) time.Duration { return time.Second }},
			func(ctx context.Context, j *Task[testArgs]) (any, error) {
				inHand <- struct{}{}
				<-back
				return nil, j.Progress(ctx, 1, 1)
			})
		return r.run(t)
	}
	defer start().stop()
	running, waiting := add(t, pool, account), add(t, pool, account)
	<-inHand
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
	_ = server.Stop(t.Context()) // What is left to stop is its hold of the directory.
	defer start().stop()         // It waits.
	close(back)
	time.Sleep(outage)
	schematest.StartPostgres(t, cfg)
	before := ticks.Load()
	await(t, pool, account, running, "done", in(job.Done))
	await(t, pool, account, waiting, "done", in(job.Done))
	for deadline := time.Now().Add(patience); ticks.Load() < before+2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is done at intervals any more")
		}
	}
}
