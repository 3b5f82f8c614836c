package timescale

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// released finds the events of a batch that were written under a lease after what it held was given to others, and sums up
// what is refused for this reason.
type released struct {
	// barriers has the end offsets of partitions, by their numbers, at which leases were given up.
	barriers map[schema.ID]map[string]int64
	sums     tally[refusedKey, refusedSum]
	// present are leases that were not given up when they were looked for, and hold late events that are to be stored.
	present *group[schema.ID]
}

// refusedKey is one row of refused_events.
type refusedKey struct {
	account                schema.ID
	agent, model, provider string
	bucket                 int64 // Unix seconds
}

// compare is the order in which rows are written.
func (k refusedKey) compare(other refusedKey) int {
	return cmp.Or(compareIDs(k.account, other.account), cmp.Compare(k.agent, other.agent), cmp.Compare(k.bucket, other.bucket),
		cmp.Compare(k.model, other.model), cmp.Compare(k.provider, other.provider))
}

// refusedSum is what the refused events of a row would have added.
type refusedSum struct {
	// Tokens and cost are what the client would have been charged for.
	events              int64
	input, output, cost schema.Sum
}

// A lease may be there again that was given up: by a request for more that came late.
const selectBarriers = `
SELECT lease_id, barrier, true AS present FROM budget_leases WHERE lease_id = ANY($1)
UNION ALL
SELECT lease_id, barrier, false FROM released_leases WHERE lease_id = ANY($1)`

// load reads which leases of the late events were given up, and where. Few batches have any. A lease that is not known at all was not:
// a database that was restored from a backup does not know the leases of since then.
func (r *released) load(ctx context.Context, conn *pgx.Conn, items []Item) error {
	// What was known of the batch before may have changed since.
	clear(r.barriers)
	clear(r.sums)
	var leases []schema.ID
	for i := range items {
		if items[i].Late && items[i].Dead == nil {
			leases = append(leases, items[i].Event.Leases...)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	found, err := pgdb.Rows[struct {
		LeaseID schema.ID
		Barrier map[string]int64
		Present bool
	}](ctx, conn, "look leases up", selectBarriers, leases)
	for i := range found {
		if found[i].Barrier != nil {
			r.barriers[found[i].LeaseID] = found[i].Barrier
		} else if found[i].Present {
			r.present.add(&found[i].LeaseID)
		}
	}
	return err
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
	sum := r.sums.at(refusedKey{e.AccountID, e.Agent, e.Model, e.Provider, bucketOf(e.ReceivedAt)})
	sum.events++
	sum.input.Add(e.InputTokens)
	sum.output.Add(e.OutputTokens)
	sum.cost.Add(int64(e.Cost))
}

// newPresent returns the leases that have to be there still when the batch is stored.
func newPresent() *group[schema.ID] {
	return newGroup("present", []column[schema.ID]{{"lease_id", typeUUID, func(a *array, id *schema.ID) { a.id(*id) }}})
}

type refusedRow = entry[refusedKey, refusedSum]

// newRefused returns the columns of table refused_events.
func newRefused() *group[refusedRow] {
	return newGroup("refused", []column[refusedRow]{
		{"account_id", typeUUID, func(a *array, r *refusedRow) { a.id(r.key.account) }},
		{"agent", typeText, func(a *array, r *refusedRow) { a.text(r.key.agent) }},
		{"model", typeText, func(a *array, r *refusedRow) { a.text(r.key.model) }},
		{"provider", typeText, func(a *array, r *refusedRow) { a.text(r.key.provider) }},
		{"bucket", typeTimestamptz, func(a *array, r *refusedRow) { a.seconds(r.key.bucket) }},
		{"events", typeInt8, func(a *array, r *refusedRow) { a.int8(r.sum.events) }},
		{"input_tokens", typeNumeric, func(a *array, r *refusedRow) { a.numeric(r.sum.input) }},
		{"output_tokens", typeNumeric, func(a *array, r *refusedRow) { a.numeric(r.sum.output) }},
		{"cost_nano_usd", typeNumeric, func(a *array, r *refusedRow) { a.numeric(r.sum.cost) }},
	})
}
