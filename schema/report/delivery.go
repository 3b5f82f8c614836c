package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Delivery is a report on its way to one address.
type Delivery struct {
	ReportID schema.ID
	Address  string
	// State is "waiting", "sent" or "failed".
	State  string
	Tries  int
	Error  *string
	SentAt *time.Time
}

const insertDeliveries = `
INSERT INTO report_deliveries (report_id, account_id, address) SELECT $1, $2, unnest($3::text[])`

func (s *Store) addDeliveries(ctx context.Context, accountID, id schema.ID, addresses []string) error {
	if _, err := s.db.Exec(ctx, insertDeliveries, id, accountID, addresses); err != nil {
		return fmt.Errorf("note whom a report is for: %w", err)
	}
	return nil
}

const selectDeliveries = `
SELECT report_id, address, state, tries, error, sent_at
FROM report_deliveries WHERE account_id = $1 AND report_id = ANY ($2::uuid[]) ORDER BY report_id, address`

// Deliveries returns whom reports of an account are sent to.
func (s *Store) Deliveries(ctx context.Context, accountID schema.ID, reports ...schema.ID) ([]Delivery, error) {
	rows, _ := s.db.Query(ctx, selectDeliveries, accountID, reports)
	deliveries, err := pgx.CollectRows(rows, pgx.RowToStructByName[Delivery])
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return deliveries, nil
}

const noteSent = `
UPDATE report_deliveries SET state = 'sent', sent_at = now(), tries = tries + 1, error = NULL
WHERE account_id = $1 AND report_id = $2 AND address = $3`

// Sent notes that a report was sent.
func (s *Store) Sent(ctx context.Context, accountID schema.ID, d *Delivery) error {
	return s.note(ctx, noteSent, accountID, d.ReportID, d.Address)
}

const noteNotSent = `
UPDATE report_deliveries SET state = CASE WHEN $5 THEN 'failed' ELSE 'waiting' END, tries = tries + 1, error = $4
WHERE account_id = $1 AND report_id = $2 AND address = $3 AND state = 'waiting'`

// NotSent notes a try that did not succeed, and whether it was the last. reason is for people.
func (s *Store) NotSent(ctx context.Context, accountID schema.ID, d *Delivery, reason string, last bool) error {
	return s.note(ctx, noteNotSent, accountID, d.ReportID, d.Address, reason, last)
}

func (s *Store) note(ctx context.Context, statement string, args ...any) error {
	if _, err := s.db.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("note what became of a report: %w", err)
	}
	return nil
}
