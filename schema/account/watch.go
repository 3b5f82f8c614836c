package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/backoff"
)

// changesChannel is notified by triggers on the tables that ingest caches.
const changesChannel = "outlay_changes"

// Watch keeps something that was read from the database fresh: it calls load
// once connected, again within milliseconds of every change, and again every
// interval in case a notification was lost. While the database is away it tries
// again with growing waits up to interval; what load made last stays in force. It
// returns when ctx ends.
type Watch struct {
	// Connect opens the connection of its own that Watch listens on.
	Connect func(context.Context) (*pgx.Conn, error)
	// Load reads everything anew on that connection.
	Load func(context.Context, *pgx.Conn) error
	// Tables are those whose changes matter. Defaults to all.
	Tables []string
	// Interval is the longest time between two loads. Defaults to 5 s.
	Interval time.Duration
	Log      *slog.Logger
}

// loadTimeout bounds one connect or one load, so that a connection that is open
// at our end only is noticed.
const loadTimeout = 10 * time.Second

// Run blocks until ctx ends.
func (w Watch) Run(ctx context.Context) {
	if w.Interval == 0 {
		w.Interval = 5 * time.Second
	}
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		loaded, err := w.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if loaded {
			wait = 100 * time.Millisecond
		}
		w.Log.WarnContext(ctx, "change feed interrupted, serving from memory", "error", err, "retry_in", wait)
		_ = backoff.Sleep(ctx, wait)
		wait = min(2*wait, w.Interval)
	}
}

// session loads on one connection until something fails. loaded says whether
// it has loaded at least once.
func (w Watch) session(ctx context.Context) (loaded bool, err error) {
	connectCtx, cancel := context.WithTimeout(ctx, loadTimeout)
	conn, err := w.Connect(connectCtx)
	cancel()
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx)
	}()
	// Listening comes before the first load, so that no change falls between.
	if _, err := conn.Exec(ctx, "LISTEN "+changesChannel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	for {
		if err := w.load(ctx, conn); err != nil {
			return loaded, err
		}
		loaded = true
		if err := w.wait(ctx, conn); err != nil {
			return loaded, err
		}
	}
}

func (w Watch) load(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := w.Load(ctx, conn); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// wait returns nil when it is time to load again: after a change, with those
// that follow at once taken together, or after the interval.
func (w Watch) wait(ctx context.Context, conn *pgx.Conn) error {
	if err := w.waitForChange(ctx, conn, w.Interval); err != nil {
		return err
	}
	return w.waitForChange(ctx, conn, 20*time.Millisecond)
}

// waitForChange returns nil after a notification that matters or after d.
func (w Watch) waitForChange(ctx context.Context, conn *pgx.Conn, d time.Duration) error {
	waitCtx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(waitCtx)
		switch {
		case err == nil && len(w.Tables) > 0 && !slices.Contains(w.Tables, n.Payload):
			continue
		case err == nil, ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil
		}
		return fmt.Errorf("wait for changes: %w", err)
	}
}
