package notify

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// delivery is a message that this process has claimed to try once.
type delivery struct {
	ID          schema.ID `db:"delivery_id"`
	AccountID   schema.ID
	ChannelID   schema.ID
	ChannelType alert.ChannelType
	// Address is a URL or an e-mail address; of a Slack channel it is only for people.
	Address string
	// Secret is empty for e-mail, and sealed until the notifier has opened it. Removed is set when there is no such channel any more.
	Secret  string
	Removed bool
	// Title and Summary are plain text. Payload is the JSON that is signed, byte for byte.
	Title   string
	Summary string
	Payload string
	// Tries counts this try, too. It begins anew when a message is sent again by hand.
	Tries    int
	GiveUpAt time.Time
	// ClaimedUntil distinguishes this claim from another one.
	ClaimedUntil time.Time
}

// claimFor is how long a message is this process's to try. It is longer than a try
// may take; after it another process tries.
const claimFor = tryTimeout + 5*time.Second

// What ended a firing is sent after the firing, however long that takes.
const claim = `
UPDATE deliveries d SET claimed_until = $1::timestamptz + $2::interval, tries = tries + 1
FROM (
  SELECT delivery_id FROM deliveries q
  WHERE state = 'pending' AND next_try_at <= $1 AND (claimed_until IS NULL OR claimed_until < $1) AND account_id <> ALL($3)
    AND NOT EXISTS (
      SELECT FROM deliveries p
      WHERE p.incident_id = q.incident_id AND p.channel_id = q.channel_id AND p.state = 'pending' AND p.created_at < q.created_at)
  ORDER BY next_try_at LIMIT 1 FOR UPDATE SKIP LOCKED
) AS due
WHERE d.delivery_id = due.delivery_id
RETURNING d.delivery_id, d.account_id, d.channel_id, d.channel_type, d.address,
  coalesce((SELECT secret FROM alert_secrets s WHERE s.channel_id = d.channel_id), '') AS secret,
  NOT EXISTS (SELECT FROM alert_channels c WHERE c.channel_id = d.channel_id) AS removed,
  d.title, d.summary, d.payload::text AS payload, d.tries, d.give_up_at, d.claimed_until`

// outbox takes messages out and notes what became of them.
type outbox struct {
	pool *pgxpool.Pool
	now  func() time.Time
}

// next claims the message that is due the longest, or returns nil. Accounts that are
// busy enough are passed over.
func (o *outbox) next(ctx context.Context, busy []schema.ID) (*delivery, error) {
	d, err := pgdb.Row[delivery](ctx, o.pool, "claim a delivery", pgx.ErrNoRows, claim, o.now(), claimFor, busy)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // There is nothing to do, which is no error.
	}
	return &d, err
}

// Tries are numbered through the life of a delivery, also when it is sent again by hand.
const insertTry = `
INSERT INTO delivery_tries (delivery_id, account_id, try, at, took_ms, outcome, status)
SELECT $1, $2, coalesce(max(try), 0) + 1, $3, $4, $5, nullif($6, 0) FROM delivery_tries WHERE delivery_id = $1`

// A try whose claim ran out counts only if it succeeded.
const finish = `
UPDATE deliveries SET state = $3, finished_at = $4, claimed_until = NULL
WHERE delivery_id = $1 AND state = 'pending' AND (claimed_until = $2 OR $3 = 'delivered')`

// A claim that ran out, and may be somebody else's by now, is left alone.
const postpone = `
UPDATE deliveries SET next_try_at = $3, claimed_until = NULL
WHERE delivery_id = $1 AND state = 'pending' AND claimed_until = $2`

// One at a time notes a try of a message, so that tries are numbered one by one.
const lockDelivery = `SELECT FROM deliveries WHERE delivery_id = $1 FOR UPDATE`

// note writes down how a try went and what follows from it.
func (o *outbox) note(ctx context.Context, d *delivery, r result, began time.Time) error {
	// The next wait is counted from the end of this try, which may have taken tryTimeout.
	now := o.now()
	return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if err := pgdb.Exec(ctx, tx, "lock a delivery", lockDelivery, d.ID); err != nil {
			return err
		}
		took := max(0, now.Sub(began).Milliseconds())
		if err := pgdb.Exec(ctx, tx, "note a try", insertTry, d.ID, d.AccountID, began, took, r.outcome, r.status); err != nil {
			return err
		}
		again := now.Add(backoff.Wait(d.Tries, firstWait, longestWait))
		switch {
		case r.outcome == outcomeDelivered:
			return pgdb.Exec(ctx, tx, "finish a delivery", finish, d.ID, d.ClaimedUntil, alert.Delivered, now)
		case r.outcome.final() || again.After(d.GiveUpAt):
			return pgdb.Exec(ctx, tx, "give a delivery up", finish, d.ID, d.ClaimedUntil, alert.Failed, now)
		}
		return pgdb.Exec(ctx, tx, "postpone a delivery", postpone, d.ID, d.ClaimedUntil, again)
	})
}

// The first wait and the longest one.
const (
	firstWait   = time.Second
	longestWait = 2 * time.Hour
)

// A message behind another one of its incident is not due before that is done.
const countPending = `
SELECT count(*) AS pending, coalesce(extract(epoch FROM $1 - min(created_at)), 0)::float8 AS oldest,
  coalesce(extract(epoch FROM $1 - min(next_try_at) FILTER (
    WHERE next_try_at <= $1 AND (claimed_until IS NULL OR claimed_until < $1) AND NOT EXISTS (
      SELECT FROM deliveries p
      WHERE p.incident_id = q.incident_id AND p.channel_id = q.channel_id AND p.state = 'pending' AND p.created_at < q.created_at))), 0)::float8 AS overdue
FROM deliveries q WHERE state = 'pending'`

// backlog is what waits in the outbox.
type backlog struct {
	Pending int64
	// Oldest is the age of the oldest message, and Overdue for how long the one that is due longest has waited for a try, both
	// in seconds.
	Oldest, Overdue float64
}

// backlog measures what waits, of all processors.
func (o *outbox) backlog(ctx context.Context) (backlog, error) {
	return pgdb.Row[backlog](ctx, o.pool, "count deliveries", pgx.ErrNoRows, countPending, o.now())
}
