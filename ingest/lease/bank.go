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

// grant is what a request for more came to.
type grant struct {
	granted, remaining schema.NanoUSD
	// refused says that the lease may not be used any more.
	refused bool
}

// callTimeout bounds one call. A request waits for it.
const callTimeout = 2 * time.Second

const leaseBudget = `
SELECT granted, greatest(least(remaining, 9e18), -9e18)::bigint FROM lease_budget($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// lease asks for more of a share.
func (b *bank) lease(ctx context.Context, replica schema.ID, scope budget.Scope, c *call) (grant, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	s := c.share
	var granted, remaining *int64
	err := b.pool.QueryRow(ctx, leaseBudget, scope.AccountID, scope.Agent, s.window.Start, s.window.End, s.epoch,
		s.id, replica, int64(c.need), int64(c.want), s.bucket, s.period, s.timezone).Scan(&granted, &remaining)
	switch {
	case err != nil:
		return grant{}, fmt.Errorf("lease from a cap: %w", err)
	case granted == nil:
		return grant{refused: true}, nil
	}
	return grant{granted: schema.NanoUSD(*granted), remaining: schema.NanoUSD(*remaining)}, nil
}

const settleLease = `SELECT settle_lease($1, $2, $3, $4, $5, $6, $7, $8)`

// settle gives back all of a share but keep.
func (b *bank) settle(ctx context.Context, replica schema.ID, scope budget.Scope, s *share, keep schema.NanoUSD, closes bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	_, err := b.pool.Exec(ctx, settleLease, scope.AccountID, scope.Agent, s.bucket, s.epoch, s.id, replica, int64(keep), closes)
	if err != nil {
		return fmt.Errorf("settle a lease: %w", err)
	}
	return nil
}

const noteReplica = `
INSERT INTO ingest_replicas (replica_id) VALUES ($1)
ON CONFLICT (replica_id) DO UPDATE SET seen_at = now()`

// beat says that the replica is alive.
func (b *bank) beat(ctx context.Context, replica schema.ID) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if _, err := b.pool.Exec(ctx, noteReplica, replica); err != nil {
		return fmt.Errorf("note the replica: %w", err)
	}
	return nil
}
