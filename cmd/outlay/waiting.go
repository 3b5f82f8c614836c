package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/migrations"
)

const (
	// databaseTimeout bounds one look at the databases of a tier.
	databaseTimeout = time.Second
	// databaseInterval is how often a tier that waits for its database looks at it.
	databaseInterval = 500 * time.Millisecond
)

// databasesReady returns nil when each database that the tier works with answers and
// has the tables of this program. Otherwise the error is one line that says what to do.
func (t *tier) databasesReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	for _, pool := range t.databases {
		if err := databaseReady(ctx, pool); err != nil {
			return err
		}
	}
	return nil
}

func databaseReady(ctx context.Context, pool *pgxpool.Pool) error {
	cfg := pool.Config().ConnConfig
	at := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return waitingForDatabase(cfg, err)
	}
	defer conn.Release()
	done, err := migrations.UpToDate(ctx, conn.Conn())
	if answer := (*pgconn.PgError)(nil); errors.As(err, &answer) && answer.Code == insufficientPrivilege {
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
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(databaseInterval):
		}
	}
	t.working.Store(true)
	return t.run(ctx)
}

// errStarting is for the moment between a database that is ready and its tier's work.
var errStarting = errors.New("starting")

// isReady returns nil when the tier is ready. If it is not while a database is not ready
// either, that is the reason. A tier that goes on without its database does not ask it.
func (t *tier) isReady(ctx context.Context) error {
	err := t.ready(ctx)
	if t.run != nil && !t.working.Load() {
		err = errStarting
	}
	if err == nil {
		return nil
	}
	return cmp.Or(t.databasesReady(context.WithoutCancel(ctx)), err)
}
