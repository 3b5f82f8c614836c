package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Share is a link that shows a session to anybody who has it. Its token is kept as
// a hash only.
type Share struct {
	ShareID         schema.ID
	AccountID       schema.ID
	SessionID       string
	TokenSHA256     []byte
	IncludeMetadata bool
	CreatedAt       Time
	// ExpiresAt is zero for a link that does not expire.
	ExpiresAt Time
	Views     int64
	// CreatedBy is the user who made it.
	CreatedBy *schema.ID
}

const shareColumns = `
	share_id, account_id, session_id, token_sha256, include_metadata, created_at, expires_at, views, created_by`

const selectShare = `
SELECT` + shareColumns + `
FROM session_shares
WHERE account_id = $1 AND session_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`

// Share returns the link of a session that is in force, or ErrNotFound.
func (s *Store) Share(ctx context.Context, accountID schema.ID, sessionID string, now time.Time) (Share, error) {
	var share Share
	err := s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, selectShare, accountID, sessionID, now)
		share, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Share])
		return notFoundOr(err)
	})
	if err != nil {
		return Share{}, fmt.Errorf("find share link: %w", err)
	}
	return share, nil
}

func notFoundOr(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// endExpired makes room for a new link where the old one has expired; $3 is now.
const endExpired = `
UPDATE session_shares SET revoked_at = expires_at
WHERE account_id = $1 AND session_id = $2 AND revoked_at IS NULL AND expires_at <= $3`

const insertShare = `
INSERT INTO session_shares (share_id, account_id, session_id, token_sha256, include_metadata, created_by, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE EXISTS (SELECT FROM events WHERE account_id = $2 AND session_id = $3)
ON CONFLICT (account_id, session_id) WHERE revoked_at IS NULL DO NOTHING`

// CreateShare makes share the link of its session and notes it as act, unless
// another one is in force by then, and returns the one that is. It returns
// ErrNotFound when the account has no such session.
func (s *Store) CreateShare(ctx context.Context, share *Share, act *Act) (Share, error) {
	now := share.CreatedAt.Time
	err := s.write(ctx, share.AccountID, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, endExpired, share.AccountID, share.SessionID, now); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, insertShare, share.ShareID, share.AccountID, share.SessionID, share.TokenSHA256,
			share.IncludeMetadata, act.UserID, now, timeOrNull(share.ExpiresAt))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return act.Note(ctx, tx, share.AccountID)
	})
	if err != nil {
		return Share{}, fmt.Errorf("create share link: %w", err)
	}
	return s.Share(ctx, share.AccountID, share.SessionID, now)
}

func timeOrNull(t Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}

const selectShareForUpdate = selectShare + ` FOR UPDATE`

const revokeShare = `
UPDATE session_shares SET revoked_at = $3
WHERE account_id = $1 AND session_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`

// RevokeShare ends the link of a session and notes it as act. It returns ErrNotFound
// when none is in force, and the error of may, which is given the link.
func (s *Store) RevokeShare(ctx context.Context, accountID schema.ID, sessionID string, act *Act, may func(*Share) error) error {
	err := s.Administer(ctx, accountID, act, func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, selectShareForUpdate, accountID, sessionID, act.At.Time)
		share, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Share])
		if err != nil {
			return notFoundOr(err)
		}
		if err := may(&share); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, revokeShare, accountID, sessionID, act.At.Time)
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke share link: %w", err)
	}
	return nil
}

// EndShare ends the link of a session if one is in force, as a part of another act.
func EndShare(ctx context.Context, tx pgx.Tx, accountID schema.ID, sessionID string, now time.Time) error {
	if _, err := tx.Exec(ctx, revokeShare, accountID, sessionID, now); err != nil {
		return fmt.Errorf("revoke share link: %w", err)
	}
	return nil
}

const selectShareAccount = `
SELECT account_of_share($1)`

const viewShare = `
UPDATE session_shares SET views = views + $3, last_viewed_at = CASE WHEN $3 > 0 THEN $2 ELSE last_viewed_at END
WHERE token_sha256 = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
	AND EXISTS (SELECT FROM accounts a WHERE a.id = account_id AND a.sharing <> 'off')
RETURNING` + shareColumns

// OpenShare returns the link with this token. A view is counted where a visitor
// opens the first page. It returns ErrNotFound for a link that is unknown, expired
// or revoked, and while the account's sharing is off.
func (s *Store) OpenShare(ctx context.Context, tokenSHA256 []byte, now time.Time, views int) (share Share, err error) {
	var accountID *schema.ID
	if err := s.pool.QueryRow(ctx, selectShareAccount, tokenSHA256).Scan(&accountID); err != nil {
		return Share{}, fmt.Errorf("open share link: %w", err)
	}
	if accountID == nil {
		return Share{}, ErrNotFound
	}
	err = s.write(ctx, *accountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, viewShare, tokenSHA256, now, views)
		share, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Share])
		return notFoundOr(err)
	})
	if err != nil {
		return Share{}, fmt.Errorf("open share link: %w", err)
	}
	return share, nil
}
