package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Act is one administrative act: who did what to which resource.
type Act struct {
	AuditID schema.ID
	At      Time
	UserID  *schema.ID
	// Email is the user's address now, empty when there is no such user any more.
	Email string
	// Issuer is the identity provider that signs the user in, empty for a password.
	Issuer string
	// Action is a resource and a verb, such as "api_key.create".
	Action string
	// Target is the id or the name of the resource.
	Target string
	// Detail is what was asked for, without secrets, as a JSON object.
	Detail json.RawMessage
	// Address is the client's; empty when it is nobody's business.
	Address   string
	RequestID string
}

const insertAct = `
INSERT INTO audit_log (audit_id, account_id, at, user_id, action, target, detail, address, request_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// Administer runs f in a transaction and notes the act in the audit log in the same
// one: what is not noted is not done. f sets the Target of the act when only it
// knows it.
func (s *Store) Administer(ctx context.Context, accountID schema.ID, act *Act, f func(context.Context, pgx.Tx) error) error {
	return s.write(ctx, accountID, func(ctx context.Context, tx pgx.Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		return act.Note(ctx, tx, accountID)
	})
}

// Note adds the act to the audit log, in the transaction that does it.
func (a *Act) Note(ctx context.Context, tx pgx.Tx, accountID schema.ID) error {
	_, err := tx.Exec(ctx, insertAct, a.AuditID, accountID, a.At.Time, a.UserID, a.Action, a.Target,
		a.Detail, a.Address, a.RequestID)
	if err != nil {
		return fmt.Errorf("note %s: %w", a.Action, err)
	}
	return nil
}

const selectActs = `
SELECT a.audit_id, a.at, a.user_id, coalesce(u.email, '') AS email, coalesce(u.issuer, '') AS issuer, a.action, a.target, a.detail,
	coalesce(a.address, '') AS address, coalesce(a.request_id, '') AS request_id
FROM audit_log a LEFT JOIN users u ON u.id = a.user_id AND u.account_id = $1
WHERE a.account_id = $1 AND a.at >= $2 AND a.at <= $3 AND (a.at, a.audit_id) < ($3, $4)
ORDER BY a.at DESC, a.audit_id DESC
LIMIT $5`

// Acts returns up to limit acts since from, newest first, beginning behind p.
func (s *Store) Acts(ctx context.Context, accountID schema.ID, from time.Time, p Position, limit int) ([]Act, error) {
	var acts []Act
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(selectActs, accountID, from, p.Time, p.ID, limit).Query(func(rows pgx.Rows) (err error) {
			acts, err = pgx.CollectRows(rows, pgx.RowToStructByName[Act])
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list audit log: %w", err)
	}
	return acts, nil
}
