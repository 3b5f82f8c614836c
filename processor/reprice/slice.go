package reprice

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/reprice"
)

// sliceEvents is the most events of a slice. What it locks, processors that store events wait for; and the costs of a slice add up
// in 64 bits.
const sliceEvents = 4000

// event is what an event's price depends on, and what it costs so far.
type event struct {
	reprice.Position
	provider, model string
	usage           price.Usage
	// cost is in nano-dollars.
	cost    int64
	source  schema.CostSource
	priceID string // Empty where there is none.
	// implicit is set when the session was made for this event alone.
	implicit bool
}

// The order is that of the index but for the last two, which distinguish what has the same id: events with a key that was
// forgotten.
const selectSlice = `
SELECT ts, event_id, kafka_partition, kafka_offset, provider, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, cost_nano_usd, cost_source, coalesce(price_id, ''), session_implicit
FROM events
WHERE account_id = $1 AND ts >= $2 AND ts < $3 AND (ts, event_id, kafka_partition, kafka_offset) > ($2, $4, $5, $6)
  AND received_at < $7 AND cost_source IN ('calculated', 'unpriced') AND ($8::text IS NULL OR model = $8)
ORDER BY ts, event_id, kafka_partition, kafka_offset
LIMIT $9`

// read returns the next events up to a time, at most sliceEvents. It is planned with its values, so that only the chunks of the
// time are looked at.
func (r *Repricer) read(ctx context.Context, state *reprice.State, end time.Time) ([]event, error) {
	at := &state.Next
	rows, _ := r.Pool.Query(ctx, selectSlice, pgx.QueryExecModeDescribeExec, state.AccountID, at.Time, end, at.Event, at.Partition, at.Offset,
		state.ReceivedBefore, state.Model, sliceEvents)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		u := &e.usage
		u.Given = true // Events without usage have another cost source, and are not selected.
		err = row.Scan(&e.Time, &e.Event, &e.Partition, &e.Offset, &e.provider, &e.model, &u.Input, &u.Output,
			&u.CacheRead, &u.CacheWrite, &u.CacheWrite1h, &u.Reasoning, &e.cost, &e.source, &e.priceID, &e.implicit)
		return e, err
	})
}

// slice is what becomes of a slice of events.
type slice struct {
	// next is where the following slice begins.
	next             reprice.Position
	events, tooLarge int64
	changes          []change
	differences      map[group]*difference
}

// change is an event that costs something else, or the same by another price.
type change struct {
	*event
	quote price.Quote
}

// group is what differences are shown by.
type group struct {
	day             time.Time
	provider, model string
}

// difference is what the changes of a group come to. Both sums are of the changed events only.
type difference struct {
	events, before, after         int64
	unpricedBefore, unpricedAfter int64
}

// add prices an event and notes what changes. An event whose new cost would be more than an event may cost keeps the one it has.
func (s *slice) add(e *event, book *price.Book) error {
	s.events++
	// The price is the one at the time of the call, as when the event was received.
	q, err := book.Quote(e.provider, e.model, e.Time, e.usage)
	if errors.Is(err, price.ErrTooLarge) {
		s.tooLarge++
		return nil
	}
	if err != nil {
		return err
	}
	if q.CostNanoUSD == e.cost && q.Source == price.Source(e.source) && q.PriceID == e.priceID {
		return nil
	}
	s.changes = append(s.changes, change{e, q})
	if s.differences == nil {
		s.differences = map[group]*difference{}
	}
	g := group{e.Time.UTC().Truncate(24 * time.Hour), e.provider, e.model}
	d := s.differences[g]
	if d == nil {
		d = &difference{}
		s.differences[g] = d
	}
	d.add(e, &q)
	return nil
}

// add adds a change. Both costs are nano-dollars.
func (d *difference) add(e *event, q *price.Quote) {
	d.events++
	d.before += e.cost
	d.after += q.CostNanoUSD
	if e.source == schema.CostUnpriced {
		d.unpricedBefore++
	}
	if q.Source == price.Unpriced {
		d.unpricedAfter++
	}
}
