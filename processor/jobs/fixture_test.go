package jobs

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/schematest"
)

// patience is how long is waited for what has to happen.
const patience = 3 * time.Minute

// soonDead is the age of a heartbeat at which a runner is taken for dead.
const soonDead = 3 * time.Second

type testArgs struct {
	N int `json:"n"`
}

func (testArgs) Kind() string { return "test" }

// runner is a Runner that runs until it is stopped.
type runner struct {
	*Runner
	registry *prometheus.Registry
	stop     func()
}

func newRunner(t *testing.T, pool *pgxpool.Pool) *runner {
	t.Helper()
	registry := prometheus.NewRegistry()
	r := New(Deps{Pool: schematest.As(t, pool, "outlay_processor"), Metrics: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	return &runner{Runner: r, registry: registry}
}

// run starts the runner; the test's end stops it if the test has not.
func (r *runner) run(t *testing.T) *runner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
		case <-time.After(patience):
			t.Error("the runner does not stop")
		}
	})
	t.Cleanup(r.stop)
	return r
}

func newAccount(t *testing.T, pool *pgxpool.Pool) schema.ID {
	t.Helper()
	id := schema.NewID(time.Now())
	if _, err := pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, id); err != nil {
		t.Fatal(err)
	}
	return id
}

func add(t *testing.T, pool *pgxpool.Pool, account schema.ID) schema.ID {
	t.Helper()
	id, err := job.NewStore(pool).Add(t.Context(), job.New{AccountID: account, Args: testArgs{7}, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// await waits until a job is as wanted.
func await(t *testing.T, pool *pgxpool.Pool, account, id schema.ID, what string, is func(*job.Job) bool) job.Job {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		j, err := job.NewStore(pool).Get(t.Context(), account, id)
		if err == nil && is(&j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("the job is not %s: %+v, %v", what, j, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func in(state job.State) func(*job.Job) bool {
	return func(j *job.Job) bool { return j.State == state }
}

// wantMetric waits until the metrics have this line.
func (r *runner) wantMetric(t *testing.T, line string) {
	t.Helper()
	name := line[:strings.IndexAny(line, "{ ")]
	name = strings.TrimSuffix(name, "_count")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		text, err := testutil.CollectAndFormat(r.registry, expfmt.TypeTextPlain, name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line %q in\n%s", line, text)
		}
	}
}
