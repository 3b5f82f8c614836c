package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Key is an API key as its owner sees it: without the secret.
type Key struct {
	ID         schema.ID
	AccountID  schema.ID
	Name       string
	Hint       string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
}

const insertKey = `
INSERT INTO api_keys (id, account_id, name, secret_sha256, hint, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

// CreateKey makes an API key and returns its secret, which is stored nowhere. A
// nil expiresAt means that the key does not expire.
func (s *Store) CreateKey(ctx context.Context, accountID schema.ID, name string, expiresAt *time.Time) (Key, string, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	secret := NewSecret()
	hash, _ := ParseSecret(secret)
	k := Key{
		ID: schema.NewID(now), AccountID: accountID, Name: name,
		Hint: Hint(secret), CreatedAt: now, ExpiresAt: expiresAt,
	}
	_, err := s.db.Exec(ctx, insertKey, k.ID, k.AccountID, k.Name, hash[:], k.Hint, k.CreatedAt, k.ExpiresAt)
	if err != nil {
		return Key{}, "", fmt.Errorf("create api key: %w", err)
	}
	return k, secret, nil
}

const selectKeys = `
SELECT id, account_id, name, hint, created_at, expires_at, revoked_at, last_used_at
FROM api_keys WHERE account_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT nullif($3, 0)`

// Keys lists the API keys of an account, newest first, revoked ones included.
func (s *Store) Keys(ctx context.Context, accountID schema.ID, page Page) ([]Key, error) {
	rows, _ := s.db.Query(ctx, selectKeys, accountID, page.Before, page.Limit)
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("list api keys: %w", err)
	}
	return keys, nil
}

const revokeKey = `
UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE account_id = $1 AND id = $2
RETURNING id`

// RevokeKey ends an API key; ingest refuses it within a second. It returns
// ErrNotFound when the account has no such key. Revoking twice is no error.
func (s *Store) RevokeKey(ctx context.Context, accountID, keyID schema.ID) error {
	var id schema.ID
	err := s.db.QueryRow(ctx, revokeKey, accountID, keyID, s.now().UTC()).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke api key: %w", err)
	}
	return nil
}
