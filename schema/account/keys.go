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
	Scopes     []Scope
	// Agents is nil for all.
	Agents []string
}

// NewKey is an API key that is to be made. Its grant was checked.
type NewKey struct {
	Name string
	// ExpiresAt is nil for a key without an end.
	ExpiresAt *time.Time
	Grant
}

const insertKey = `
INSERT INTO api_keys (id, account_id, name, secret_sha256, hint, created_at, expires_at, scopes, agents)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// CreateKey makes an API key and returns its secret, which is stored nowhere.
func (s *Store) CreateKey(ctx context.Context, accountID schema.ID, wanted NewKey) (Key, string, error) {
	wanted.Normalise()
	now := s.now().UTC().Truncate(time.Microsecond)
	secret := NewSecret()
	hash, _ := ParseSecret(secret)
	k := Key{
		ID: schema.NewID(now), AccountID: accountID, Name: wanted.Name,
		Hint: Hint(secret), CreatedAt: now, ExpiresAt: wanted.ExpiresAt, Scopes: wanted.Scopes, Agents: wanted.Agents,
	}
	_, err := s.db.Exec(ctx, insertKey, k.ID, k.AccountID, k.Name, hash[:], k.Hint, k.CreatedAt, k.ExpiresAt, k.Scopes, k.Agents)
	if err != nil {
		return Key{}, "", fmt.Errorf("create api key: %w", err)
	}
	return k, secret, nil
}

const selectKeys = `
SELECT id, account_id, name, hint, created_at, expires_at, revoked_at, last_used_at, scopes, agents
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

// RevokeKey ends an API key; ingest and query refuse it within a second. It returns
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
