package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Delivery is a message on its way to a channel, or there, or given up.
type Delivery struct {
	ID         schema.ID `db:"delivery_id"`
	AccountID  schema.ID
	Channel    ChannelType `db:"channel_type"`
	Address    string
	AlertID    *schema.ID
	IncidentID *schema.ID
	Type       Type
	Title      string
	Summary    string
	State      DeliveryState
	CreatedAt  time.Time
	NextTryAt  time.Time
	GiveUpAt   time.Time
	FinishedAt *time.Time
	Tries      []Try `db:"-"`
}

// DeliveryState is what became of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Failed    DeliveryState = "failed"
)

// Try is one try to deliver.
type Try struct {
	Try    int
	At     time.Time
	TookMS int64
	// Outcome is "delivered" or why not.
	Outcome string
	// Status is the receiver's HTTP status or SMTP code, nil without an answer.
	Status *int
}

// DeliverFor is how long a message is tried to be delivered.
const DeliverFor = 24 * time.Hour

const insertDeliveries = `
INSERT INTO deliveries (delivery_id, account_id, channel_id, channel_type, address, alert_id, incident_id, type, cause,
  title, summary, payload, created_at, next_try_at, give_up_at)
SELECT q.delivery_id, $1, c.channel_id, c.type, c.address, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12
FROM unnest($2::uuid[], $3::uuid[]) AS q (delivery_id, channel_id)
JOIN alert_channels c ON c.channel_id = q.channel_id AND c.account_id = $1
ON CONFLICT (channel_id, cause) DO NOTHING`

// Notify has a message sent to each of the channels, in the transaction of what it is about. A second message of the same cause is
// not sent. It returns the ids of the deliveries.
func (s *Store) Notify(ctx context.Context, accountID schema.ID, m *Message, channels []Channel) ([]schema.ID, error) {
	if len(channels) == 0 {
		return nil, nil
	}
	payload, err := m.payload()
	if err != nil {
		return nil, err
	}
	ids, of := make([]schema.ID, len(channels)), make([]schema.ID, len(channels))
	for i := range channels {
		ids[i], of[i] = schema.NewID(m.At), channels[i].ID
	}
	_, err = s.db.Exec(ctx, insertDeliveries, accountID, ids, of, m.RuleID, m.IncidentID, m.Type, m.Cause,
		m.Title, m.Summary, payload, m.At, m.At.Add(DeliverFor))
	if err != nil {
		return nil, fmt.Errorf("add deliveries of %s: %w", m.Type, err)
	}
	return ids, nil
}

// NotifyAccount is Notify for what belongs to no rule: it goes to the account's own channels.
func (s *Store) NotifyAccount(ctx context.Context, accountID schema.ID, m *Message) error {
	channels, err := s.Channels(ctx, accountID, nil)
	if err != nil {
		return err
	}
	_, err = s.Notify(ctx, accountID, m, channels)
	return err
}

const deliveryColumns = `
SELECT delivery_id, account_id, channel_type, address, alert_id, incident_id, type, title, summary, state,
  created_at, next_try_at, give_up_at, finished_at
FROM deliveries`

const selectDeliveries = deliveryColumns + `
WHERE account_id = $1 AND alert_id IS NOT DISTINCT FROM $2 AND (created_at, delivery_id) < ($3, $4)
ORDER BY created_at DESC, delivery_id DESC LIMIT $5`

// Deliveries lists up to limit deliveries of a rule, or of the account's own channels
// for nil, newest first, beginning behind a position, with their tries.
func (s *Store) Deliveries(ctx context.Context, accountID schema.ID, rule *schema.ID, before time.Time, id schema.ID, limit int) ([]Delivery, error) {
	return s.deliveries(ctx, selectDeliveries, accountID, rule, before, id, limit)
}

const selectDeliveriesOf = deliveryColumns + ` WHERE account_id = $1 AND delivery_id = ANY($2) ORDER BY delivery_id`

// DeliveriesOf returns the deliveries of these ids that the account has.
func (s *Store) DeliveriesOf(ctx context.Context, accountID schema.ID, ids []schema.ID) ([]Delivery, error) {
	return s.deliveries(ctx, selectDeliveriesOf, accountID, ids)
}

const selectTries = `
SELECT delivery_id, try, at, took_ms, outcome, status FROM delivery_tries
WHERE account_id = $1 AND delivery_id = ANY($2) ORDER BY delivery_id, try`

// deliveries runs a query for deliveries of an account, its first argument, and adds their tries.
func (s *Store) deliveries(ctx context.Context, query string, accountID schema.ID, args ...any) ([]Delivery, error) {
	found, err := pgdb.Rows[Delivery](ctx, s.db, "list deliveries", query, append([]any{accountID}, args...)...)
	if err != nil {
		return nil, err
	}
	ids, at := make([]schema.ID, len(found)), map[schema.ID]int{}
	for i := range found {
		ids[i], at[found[i].ID] = found[i].ID, i
	}
	tries, _ := s.db.Query(ctx, selectTries, accountID, ids)
	var id schema.ID
	var t Try
	_, err = pgx.ForEachRow(tries, []any{&id, &t.Try, &t.At, &t.TookMS, &t.Outcome, &t.Status}, func() error {
		d := &found[at[id]]
		d.Tries = append(d.Tries, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tries: %w", err)
	}
	return found, nil
}

// ErrPending is returned for a delivery that is still on its way.
var ErrPending = errors.New("the delivery is still on its way")

const replayDelivery = `
UPDATE deliveries SET state = 'pending', tries = 0, finished_at = NULL, claimed_until = NULL, next_try_at = $4, give_up_at = $5
WHERE account_id = $1 AND alert_id IS NOT DISTINCT FROM $2 AND delivery_id = $3 AND state <> 'pending'`

const deliveryExists = `
SELECT EXISTS (SELECT FROM deliveries WHERE account_id = $1 AND alert_id IS NOT DISTINCT FROM $2 AND delivery_id = $3)`

// Replay has a finished delivery of a rule, or of the account's own channels for nil,
// sent again under the same id. It returns ErrNotFound or ErrPending.
func (s *Store) Replay(ctx context.Context, accountID schema.ID, rule *schema.ID, id schema.ID, now time.Time) error {
	tag, err := s.db.Exec(ctx, replayDelivery, accountID, rule, id, now, now.Add(DeliverFor))
	if err != nil {
		return fmt.Errorf("replay delivery: %w", err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	exists, err := pgdb.Value[bool](ctx, s.db, "look for delivery", deliveryExists, accountID, rule, id)
	switch {
	case err != nil:
		return err
	case exists:
		return ErrPending
	}
	return ErrNotFound
}

const testPending = `
SELECT EXISTS (SELECT FROM deliveries
  WHERE account_id = $1 AND alert_id = $2 AND incident_id IS NULL AND (state = 'pending' OR created_at > $3))`

// TestedSince reports whether a test of a rule is on its way or was made after a time.
func (s *Store) TestedSince(ctx context.Context, accountID, rule schema.ID, since time.Time) (bool, error) {
	return pgdb.Value[bool](ctx, s.db, "look for tests", testPending, accountID, rule, since)
}
