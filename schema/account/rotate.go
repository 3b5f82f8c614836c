package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// $4 is when the old key ends; one that ends earlier anyway keeps its own end.
const replaceKey = `
UPDATE api_keys
SET expires_at = CASE WHEN $4 > $3 THEN least(expires_at, $4) ELSE expires_at END,
	revoked_at = CASE WHEN $4 > $3 THEN NULL ELSE $3::timestamptz END
WHERE account_id = $1 AND id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)
RETURNING name, scopes, agents`

// RotateKey makes a new API key of the same name for the same scopes and agents, and ends the old one after grace,
// at once when grace is 0. The caller runs it in a transaction. It returns
// ErrNotFound for a key that the account does not have or that has ended already.
func (s *Store) RotateKey(ctx context.Context, accountID, keyID schema.ID, grace time.Duration) (Key, string, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	var wanted NewKey
	err := s.db.QueryRow(ctx, replaceKey, accountID, keyID, now, now.Add(grace)).Scan(&wanted.Name, &wanted.Scopes, &wanted.Agents)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, "", ErrNotFound
	}
	if err != nil {
		return Key{}, "", fmt.Errorf("rotate api key: %w", err)
	}
	return s.CreateKey(ctx, accountID, wanted)
}
