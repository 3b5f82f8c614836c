package alerting

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// leaseFor is how long a lease lasts without being renewed: no rule is checked for at most so long when the leader dies.
const leaseFor = 15 * time.Second

// errNotLeader is returned while another processor holds the lease.
var errNotLeader = errors.New("another processor is the leader")

// leader is this process as a holder of the lease, or a candidate for it. The lease is a row; only its holder may write what a check
// found.
type leader struct {
	// pool is the evaluator's.
	pool *pgxpool.Pool
	// holder names this process in the row of the lease.
	holder schema.ID
}

// Times are the database's, so that the clocks of processors need not agree.
const renewLease = `
UPDATE alert_leader SET holder = $1, until = clock_timestamp() + $2::interval
WHERE holder = $1 OR until < clock_timestamp()`

// renew takes or prolongs the lease. It returns errNotLeader while another process holds it.
func (l *leader) renew(ctx context.Context) error {
	return pgdb.Change(ctx, l.pool, "renew the lease", errNotLeader, renewLease, l.holder, leaseFor)
}

// A lease that another process holds is left alone.
const endLease = `UPDATE alert_leader SET until = '-infinity' WHERE holder = $1`

// resign gives the lease up, so that another process can take it at once.
func (l *leader) resign(ctx context.Context) error {
	return pgdb.Exec(ctx, l.pool, "give up the lease", endLease, l.holder)
}

// FOR SHARE makes whoever would take the lease wait for the transaction.
const lockLease = `SELECT true FROM alert_leader WHERE holder = $1 AND until > clock_timestamp() FOR SHARE`

// exec runs one statement in such a transaction. action begins the error.
func (l *leader) exec(ctx context.Context, action, statement string, args ...any) error {
	return l.transaction(ctx, func(tx pgx.Tx) error { return pgdb.Exec(ctx, tx, action, statement, args...) })
}

// transaction runs f in a transaction during which nobody else can take the lease. A leader that was paused past its lease changes
// nothing: it gets errNotLeader.
func (l *leader) transaction(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if err := pgdb.Change(ctx, tx, "lock the lease", errNotLeader, lockLease, l.holder); err != nil {
			return err
		}
		return f(tx)
	})
}
