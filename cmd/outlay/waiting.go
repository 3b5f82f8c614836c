package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/pgdb"
)

const (
	// databaseTimeout bounds one look at a database. A tier looks at all of its own at once.
	databaseTimeout = time.Second
	// databaseInterval is how often a tier that waits for its database looks at it.
	databaseInterval = 500 * time.Millisecond
)

// databasesReady returns nil when each database that the tier works with answers and
// has the tables of this program. Otherwise the error is one line with what to do.
func (t *tier) databasesReady(ctx context.Context) error {
	failed := make([]error, len(t.databases))
	var wg sync.WaitGroup
	for i, pool := range t.databases {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
			defer cancel()
			failed[i] = databaseReady(ctx, pool)
		})
	}
	wg.Wait()
	return cmp.Or(failed...)
}

// allInUse reports whether a pool had no free connection because work has all of them.
func allInUse(pool *pgxpool.Pool, err error) bool {
	// A deadline with free connections means that a new one could not be made.
	s := pool.Stat()
	return errors.Is(err, context.DeadlineExceeded) && s.AcquiredConns() >= s.MaxConns()
}

// databaseReady looks at one database: whether it can be reached, and whether it has the tables of this version.
func databaseReady(ctx context.Context, pool *pgxpool.Pool) error {
	// Errors name the address and never the password.
	cfg := pool.Config().ConnConfig
	at := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	conn, err := pool.Acquire(ctx)
	switch {
	case allInUse(pool, err):
		return nil // Busy, which upkeep may be for minutes, and connected.
	case err != nil:
		return waitingForDatabase(cfg, err)
	}
	defer conn.Release()
	done, err := migrations.UpToDate(ctx, conn.Conn())
	if pgdb.SQLState(err) == insufficientPrivilege {
		return nil // An operator's own role: the tables are there, how many of them it may not see.
	}
	switch {
	case err != nil:
		return waitingForDatabase(cfg, err)
	case !done:
		return fmt.Errorf("the database %q at %s lacks tables of this version: run outlay migrate", cfg.Database, at)
	}
	return nil
}

// insufficientPrivilege is PostgreSQL's code for a right that a role does not have.
const insufficientPrivilege = "42501"

// work is run once the databases of the tier are ready. Its parts can do nothing before,
// and each would log the same reason.
func (t *tier) work(ctx context.Context) error {
	for t.databasesReady(ctx) != nil {
		if err := backoff.Sleep(ctx, databaseInterval); err != nil {
			return err
		}
	}
	t.working.Store(true)
	return t.run(ctx)
}

// errStarting is for the moment between a database that is ready and its tier's work.
var errStarting = errors.New("starting")

// errBusy is for a tier that had no connection in time to a database that is there.
var errBusy = errors.New("no connection to the database was free in time")

// isReady returns nil when the tier is ready. If it is not while a database is not ready
// either, that is the reason. A tier that goes on without its database does not ask it.
// The look at the databases begins early enough to end within readyTimeout.
func (t *tier) isReady(ctx context.Context) error {
	// Both the timer and the end of this function may look; the databases are asked once.
	look := sync.OnceValue(func() error { return t.databasesReady(context.WithoutCancel(ctx)) })
	defer time.AfterFunc(readyTimeout-databaseTimeout, func() { _ = look() }).Stop()
	err := t.ready(ctx)
	if t.run != nil && !t.working.Load() {
		err = errStarting
	}
	if err == nil {
		return nil
	}
	if lost := look(); lost != nil {
		return lost
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errBusy
	}
	return err
}
