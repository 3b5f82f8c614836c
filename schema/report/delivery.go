package report

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
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
	return pgdb.Exec(ctx, s.db, "note whom a report is for", insertDeliveries, id, accountID, addresses)
}

const selectDeliveries = `
SELECT report_id, address, state, tries, error, sent_at
FROM report_deliveries WHERE account_id = $1 AND report_id = ANY ($2::uuid[]) ORDER BY report_id, address`

// Deliveries returns whom reports of an account are sent to.
func (s *Store) Deliveries(ctx context.Context, accountID schema.ID, reports ...schema.ID) ([]Delivery, error) {
	return pgdb.Rows[Delivery](ctx, s.db, "list deliveries", selectDeliveries, accountID, reports)
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
	return pgdb.Exec(ctx, s.db, "note what became of a report", statement, args...)
}
