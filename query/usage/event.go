package usage

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

const selectEvent = `
SELECT` + eventColumns + `, coalesce(cost_breakdown, '[]') AS cost_breakdown
FROM events
WHERE account_id = $1 AND event_id = $2 AND ts >= $3 AND ts < $4
LIMIT 1`

// Revision is what an event cost before it was repriced.
type Revision struct {
	Until      Time           `json:"until"`
	CostUSD    schema.NanoUSD `json:"cost_usd"`
	CostSource string         `json:"cost_source"`
	PriceID    *string        `json:"price_id"`
	JobID      JobID          `json:"job_id"`
}

const selectRevisions = `
SELECT revised_at AS until, cost_nano_usd AS cost_usd, cost_source, price_id, job_id
FROM event_revisions
WHERE account_id = $1 AND event_id = $2 AND ts >= $3 AND ts < $4
ORDER BY revised_at DESC, job_id DESC
LIMIT 100`

// Event returns one event. It returns ErrNotFound when the account has none of
// this id.
//
// No index leads to an event by its id alone. The id says when the event came in, to
// the millisecond, and most happened then or some seconds before; only for the others
// an hour is read, and then the rest of the days that an event may be late.
func (s *Store) Event(ctx context.Context, accountID, id schema.ID) (EventDetail, error) {
	windows, err := s.likelyTimes(ctx, accountID, id)
	for i := 0; err == nil && i < len(windows); i++ {
		var found []EventDetail
		var revisions []Revision
		err = s.atOnce(ctx, accountID, func(b *pgx.Batch) {
			if windows[i].to.Sub(windows[i].from) <= fewChunks {
				b.Queue(planAnew)
			}
			b.Queue(selectEvent, accountID, id, windows[i].from, windows[i].to).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.CollectRows(rows, pgx.RowToStructByName[EventDetail])
				return err
			})
			b.Queue(selectRevisions, accountID, id, windows[i].from, windows[i].to).Query(func(rows pgx.Rows) (err error) {
				revisions, err = pgx.CollectRows(rows, pgx.RowToStructByName[Revision])
				return err
			})
		})
		if err == nil && len(found) > 0 {
			found[0].Revisions = revisions
			return found[0], nil
		}
	}
	return EventDetail{}, fmt.Errorf("find event: %w", cmp.Or(err, ErrNotFound))
}

type window struct{ from, to time.Time }

// likelyTimes returns where to look for an event, the likeliest first.
func (s *Store) likelyTimes(ctx context.Context, accountID, id schema.ID) ([]window, error) {
	arrival, err := s.arrivalOf(ctx, accountID, id)
	if err != nil {
		return nil, err
	}
	if arrival.IsZero() {
		from, to := AllTime()
		return []window{{from, to}}, nil
	}
	// A minute more on both sides, for the clocks of several replicas.
	oldest := arrival.Add(-schema.MaxEventAge - time.Minute)
	newest := arrival.Add(schema.MaxEventAhead + time.Minute)
	near := arrival.Add(-time.Hour)
	return []window{
		{arrival, arrival.Add(time.Millisecond)},
		{arrival.Add(-10 * time.Second), arrival.Add(time.Second)},
		{near, newest},
		{oldest, near},
	}, nil
}

const selectFirstSeen = `
SELECT first_seen FROM event_keys WHERE account_id = $1 AND event_id = $2`

// arrivalOf returns about when an event arrived: what a UUIDv7 says, or, for an
// id that was made from an idempotency key, what the table of recent keys says.
// It returns the zero time when nobody knows.
func (s *Store) arrivalOf(ctx context.Context, accountID, id schema.ID) (seen time.Time, err error) {
	if id[6]>>4 == 7 {
		ms := binary.BigEndian.Uint64(id[:8]) >> 16
		return time.UnixMilli(int64(ms)), nil
	}
	err = s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(selectFirstSeen, accountID, id).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&seen)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	})
	return seen, err
}
