package limit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// callTimeout is how long the database may take before requests are decided
// without it. Too little would make a busy database pass for one that is away.
const callTimeout = time.Second

// bank is the database's side of the windows.
type bank struct {
	pool *pgxpool.Pool
	// timeout is callTimeout; tests have more patience.
	timeout time.Duration
}

// ask is a question about one window.
type ask struct {
	window *window
	// owed was taken without asking; at least need and at most want is asked for.
	owed, need, want int64
}

// grant is the answer: what was handed out, and what is left for all.
type grant struct{ granted, remaining int64 }

const takeRate = `
SELECT granted, remaining FROM take_rate($1::timestamptz[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])`

// take asks about several windows at once, and sorts the questions: the answers
// are in their order.
func (b *bank) take(ctx context.Context, asks []ask) ([]grant, error) {
	slices.SortFunc(asks, func(x, y ask) int {
		return cmp.Or(cmp.Compare(x.window.start, y.window.start), bytes.Compare(x.window.account[:], y.window.account[:]))
	})
	var (
		starts                     = make([]time.Time, len(asks))
		accounts                   = make([]schema.ID, len(asks))
		limits, owed, needs, wants = make([]int64, len(asks)), make([]int64, len(asks)), make([]int64, len(asks)), make([]int64, len(asks))
	)
	for i, a := range asks {
		starts[i], accounts[i], limits[i] = time.Unix(a.window.start, 0), a.window.account, a.window.limit
		owed[i], needs[i], wants[i] = a.owed, a.need, a.want
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	rows, _ := b.pool.Query(ctx, takeRate, starts, accounts, limits, owed, needs, wants)
	grants, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g grant, err error) {
		return g, row.Scan(&g.granted, &g.remaining)
	})
	if err == nil && len(grants) != len(asks) {
		err = fmt.Errorf("%d answers", len(grants))
	}
	if err != nil {
		return nil, fmt.Errorf("ask for events of %d windows: %w", len(asks), err)
	}
	return grants, nil
}

// A replica notes every two seconds that it is alive.
const selectReplicas = `
SELECT count(*), clock_timestamp() FROM ingest_replicas WHERE seen_at > now() - interval '10 seconds'`

// replicas returns how many ingest replicas are alive, and the database's time.
func (b *bank) replicas(ctx context.Context) (n int64, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if err := b.pool.QueryRow(ctx, selectReplicas).Scan(&n, &now); err != nil {
		return 0, time.Time{}, fmt.Errorf("count ingest replicas: %w", err)
	}
	return n, now, nil
}

const deletePast = `
DELETE FROM rate_windows WHERE window_start < now() - interval '2 minutes'`

// clean deletes windows that are over.
func (b *bank) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*b.timeout)
	defer cancel()
	if _, err := b.pool.Exec(ctx, deletePast); err != nil {
		return fmt.Errorf("delete past rate windows: %w", err)
	}
	return nil
}
