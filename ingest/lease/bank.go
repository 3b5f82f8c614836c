package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// bank is the database's side of the leases.
type bank struct {
	pool *pgxpool.Pool
	// timeout is callTimeout; tests have more patience.
	timeout time.Duration
}

// figures are where a cap stands in a period as the database knows it, all of one
// moment.
type figures struct {
	limit schema.NanoUSD
	// spent is stored, leased is held by replicas or on its way.
	spent, leased schema.NanoUSD
	// used is, for each share asked about, the cost of its events that are read; nil
	// for a share that the database does not know or that a reset has taken out.
	used []*int64
}

// remaining is what may be leased. It is negative when more is.
func (f figures) remaining() schema.NanoUSD { return f.limit - f.spent - f.leased }

// grant is what a request for more came to. The figures include it.
type grant struct {
	figures
	granted schema.NanoUSD
	// refused says that the lease may not be used any more.
	refused bool
}

// callTimeout bounds one call. A request waits for it.
const callTimeout = 2 * time.Second

// Sums are numeric in the database. What is cut off here is far above any cap.
const leaseBudget = `
SELECT granted, of_limit, greatest(least(spent, 4e18), -4e18)::bigint, greatest(least(leased, 4e18), 0)::bigint,
  array(SELECT (CASE WHEN u > 9e18 THEN 9e18 ELSE u END)::bigint FROM unnest(used) WITH ORDINALITY AS q(u, n) ORDER BY n)
FROM lease_budget($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

// lease asks for more of a share.
func (b *bank) lease(ctx context.Context, replica schema.ID, scope budget.Scope, c *call) (grant, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	s := c.share
	var granted, limit, spent, leased *int64
	var g grant
	err := b.pool.QueryRow(ctx, leaseBudget, scope.AccountID, scope.Agent, s.window.Start, s.window.End, s.epoch,
		s.id, replica, int64(c.need), int64(c.want), s.bucket, s.period, s.timezone, c.ids()).Scan(&granted, &limit, &spent, &leased, &g.used)
	switch {
	case err != nil:
		return grant{}, fmt.Errorf("lease from a cap: %w", err)
	case granted == nil:
		return grant{refused: true}, nil
	}
	g.granted, g.limit = schema.NanoUSD(*granted), schema.NanoUSD(*limit)
	g.spent, g.leased = schema.NanoUSD(*spent), schema.NanoUSD(*leased)
	return g, nil
}

const selectFigures = `
SELECT b.limit_nano_usd, greatest(least(budget_spent($1, $2, $3, $4), 4e18), -4e18)::bigint,
  greatest(least(budget_leased($1, $2, $3, $4), 4e18), 0)::bigint,
  array(SELECT (CASE WHEN u > 9e18 THEN 9e18 ELSE u END)::bigint FROM unnest(leases_used($8)) WITH ORDINALITY AS q(u, n) ORDER BY n)
FROM budgets b WHERE b.account_id = $1 AND b.agent = $2 AND b.epoch = $5 AND b.period = $6 AND b.timezone = $7`

// look reads where a cap stands. It returns pgx.ErrNoRows for a cap that was removed,
// was reset or has other periods than the share.
func (b *bank) look(ctx context.Context, scope budget.Scope, c *call) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	s := c.share
	err = b.pool.QueryRow(ctx, selectFigures, scope.AccountID, scope.Agent, s.window.Start, s.window.End, s.epoch, s.period, s.timezone, c.ids()).
		Scan(&f.limit, &f.spent, &f.leased, &f.used)
	if err != nil {
		return figures{}, fmt.Errorf("read where a cap stands: %w", err)
	}
	return f, nil
}

const settleLease = `SELECT settle_lease($1, $2, $3, $4, $5, $6, $7, $8)`

// settle gives back all of a share but keep.
func (b *bank) settle(ctx context.Context, scope budget.Scope, s *share, keep schema.NanoUSD, closes bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	_, err := b.pool.Exec(ctx, settleLease, scope.AccountID, scope.Agent, s.bucket, s.epoch, s.id, s.replica, int64(keep), closes)
	if err != nil {
		return fmt.Errorf("settle a lease: %w", err)
	}
	return nil
}

// A replica is added once. One that was not seen for long stays dead, even if its row is gone.
const noteReplica = `
INSERT INTO ingest_replicas AS r (replica_id)
SELECT $1 WHERE NOT $2 OR EXISTS (SELECT FROM ingest_replicas WHERE replica_id = $1)
ON CONFLICT (replica_id) DO UPDATE SET seen_at = now() WHERE r.seen_at > now() - $3::interval`

// beat notes that the replica is alive. known is false if the database has not seen it for validFor, and may take it for dead.
func (b *bank) beat(ctx context.Context, r *replica, validFor time.Duration) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	tag, err := b.pool.Exec(ctx, noteReplica, r.id, r.seen, validFor)
	if err != nil {
		return false, fmt.Errorf("note the replica: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
