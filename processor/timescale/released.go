package timescale

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// released finds the events of a batch that were written under a lease after what it held was given to others, and sums up
// what is refused for this reason.
type released struct {
	// barriers has the end offsets of partitions, by their numbers, at which leases were given up.
	barriers map[schema.ID]map[string]int64
	sums     map[refusedKey]refusedSum

	// present are leases that were not given up when they were looked for, and hold late events that are to be stored.
	present                          column
	account, agent, model, provider  column
	bucket, events                   column
	inputTokens, outputTokens, costs column
}

// refusedKey is one row of refused_events.
type refusedKey struct {
	account                schema.ID
	agent, model, provider string
	bucket                 int64 // Unix seconds
}

type refusedSum struct {
	events              int64
	input, output, cost schema.Sum
}

// columns are the last parameters of saveBatch with their element types.
func (r *released) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&r.account, pgtype.UUIDOID) &&
			yield(&r.agent, pgtype.TextOID) &&
			yield(&r.model, pgtype.TextOID) &&
			yield(&r.provider, pgtype.TextOID) &&
			yield(&r.bucket, pgtype.TimestamptzOID) &&
			yield(&r.events, pgtype.Int8OID) &&
			yield(&r.inputTokens, pgtype.NumericOID) &&
			yield(&r.outputTokens, pgtype.NumericOID) &&
			yield(&r.costs, pgtype.NumericOID)
	}
}

func (r *released) reset() {
	clear(r.sums)
	for c, elementType := range r.columns() {
		c.reset(elementType)
	}
}

// A lease may be there again that was given up: by a request for more that came late.
const selectBarriers = `
SELECT lease_id, barrier, true AS present FROM budget_leases WHERE lease_id = ANY($1)
UNION ALL
SELECT lease_id, barrier, false FROM released_leases WHERE lease_id = ANY($1)`

// load reads which leases of the late events were given up, and where. Few batches have any. A lease that is not known at all was not:
// a database that was restored from a backup does not know the leases of since then.
func (r *released) load(ctx context.Context, conn *pgx.Conn, items []Item) error {
	r.present.reset(pgtype.UUIDOID)
	clear(r.barriers)
	var leases []schema.ID
	for i := range items {
		if items[i].Late && items[i].Dead == nil {
			leases = append(leases, items[i].Event.Leases...)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	if r.barriers == nil {
		r.barriers, r.sums = map[schema.ID]map[string]int64{}, map[refusedKey]refusedSum{}
	}
	rows, _ := conn.Query(ctx, selectBarriers, leases)
	var (
		lease   schema.ID
		barrier map[string]int64
		present bool
	)
	_, err := pgx.ForEachRow(rows, []any{&lease, &barrier, &present}, func() error {
		if barrier != nil {
			r.barriers[lease] = barrier
		} else if present {
			r.present.id(lease)
		}
		barrier = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("look leases up: %w", err)
	}
	return nil
}

// refuses reports whether an event was written after what one of its leases held was given to others. A partition that is not in
// the barrier refuses nothing.
func (r *released) refuses(item *Item) bool {
	if !item.Late || item.Event.Cost == 0 {
		return false
	}
	return slices.ContainsFunc(item.Event.Leases, func(lease schema.ID) bool {
		end, known := r.barriers[lease][strconv.Itoa(int(item.Partition))]
		return known && item.Offset >= end
	})
}

// add sums up an event that is refused.
func (r *released) add(e *schema.Event) {
	k := refusedKey{e.AccountID, e.Agent, e.Model, e.Provider, bucketOf(e.ReceivedAt)}
	sum := r.sums[k]
	sum.events++
	sum.input.Add(e.InputTokens)
	sum.output.Add(e.OutputTokens)
	sum.cost.Add(int64(e.Cost))
	r.sums[k] = sum
}

// encode adds the sums in a fixed order, as addSpend does.
func (r *released) encode() {
	keys := make([]refusedKey, 0, len(r.sums))
	for k := range r.sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b refusedKey) int {
		return cmp.Or(slices.Compare(a.account[:], b.account[:]), cmp.Compare(a.agent, b.agent), cmp.Compare(a.bucket, b.bucket),
			cmp.Compare(a.model, b.model), cmp.Compare(a.provider, b.provider))
	})
	for _, k := range keys {
		s := r.sums[k]
		r.account.id(k.account)
		r.agent.text(k.agent)
		r.model.text(k.model)
		r.provider.text(k.provider)
		r.bucket.time(time.Unix(k.bucket, 0))
		r.events.int8(s.events)
		r.inputTokens.numeric(s.input)
		r.outputTokens.numeric(s.output)
		r.costs.numeric(s.cost)
	}
}
