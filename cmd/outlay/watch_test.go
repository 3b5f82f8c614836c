package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// poolOf returns a pool of a size. Its address may be one of no database.
func poolOf(t *testing.T, url string, size int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = size
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// busyPool returns a pool whose connections are all in use.
func busyPool(t *testing.T, url string, size int32) *pgxpool.Pool {
	t.Helper()
	pool := poolOf(t, url, size)
	for range size {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
	return pool
}

// A tier whose connections are all in use does not wait for its database: what keeps it
// from being ready is something else.
func TestBusyPoolIsReady(t *testing.T) {
	t.Parallel()
	url := schematest.DatabaseOf(t, migrations.Plain).URL
	busy, free, lost := busyPool(t, url, 2), poolOf(t, url, 2), poolOf(t, "postgres://outlay:secret@"+nowhere+"/outlay", 2)
	kafka := errors.New("waiting for Kafka")
	x := &tier{name: "x", databases: []*pgxpool.Pool{busy, busy, busy, free}, ready: func(context.Context) error { return kafka }}
	if err := x.isReady(t.Context()); !errors.Is(err, kafka) {
		t.Errorf("with pools in use: %v, want %v", err, kafka)
	}
	x.ready = func(ctx context.Context) error { return busy.Ping(ctx) }
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	if err := x.isReady(ctx); !errors.Is(err, errBusy) {
		t.Errorf("without a connection of its own: %v, want %v", err, errBusy)
	}
	x.databases = append(x.databases, lost)
	x.ready = func(context.Context) error { return kafka }
	if err := x.isReady(t.Context()); err == nil || !strings.Contains(err.Error(), "waiting for the database at "+nowhere) {
		t.Errorf("with one database lost: %v, want that it waits for it", err)
	}
}

// /readyz answers within its time when nothing does that it asks, and names each tier.
func TestReadinessKeepsItsTime(t *testing.T) {
	t.Parallel()
	pool := busyPool(t, schematest.DatabaseOf(t, migrations.Plain).URL, 1)
	var checks []check
	for _, name := range []string{"a", "b", "c"} {
		x := &tier{name: name, databases: []*pgxpool.Pool{pool}, ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		checks = append(checks, check{name, x.isReady})
	}
	checks = append(checks, check{"d", func(ctx context.Context) error { return ctx.Err() }})
	w, began := httptest.NewRecorder(), time.Now()
	ready(w, httptest.NewRequest(http.MethodGet, "/readyz", nil), checks)
	if took := time.Since(began); took > readyTimeout+databaseTimeout/2 {
		t.Errorf("it took %v, want %v", took, readyTimeout)
	}
	if text := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Count(text, "\n") != 3 || strings.Contains(text, "d: ") {
		t.Errorf("%d: %q, want 503 for a, b and c", w.Code, text)
	}
}

// What comes and goes every few seconds is logged like one that lasts, and as ended once.
func TestFlappingIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var log strings.Builder
		p := &process{log: slog.New(slog.NewTextHandler(io.MultiWriter(&log, t.Output()), nil)), tiers: []*tier{{name: "x", ready: func(context.Context) error {
			// For 50 s it is ready at every other look.
			if looks := time.Since(began) / watchInterval; looks%2 == 1 && time.Since(began) < 50*time.Second {
				return errors.New("waiting")
			}
			return nil
		}}}}
		ended := make(chan error, 1)
		go func() { ended <- p.watchReadiness(ctx) }()
		time.Sleep(5 * time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		warned, settled := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "ready again")
		if warned != 1 || settled != 1 || !strings.Contains(log.String(), "after=45s") {
			t.Errorf("%d warnings and %d recoveries, want one each, after 45s:\n%s", warned, settled, log.String())
		}
	})
}
