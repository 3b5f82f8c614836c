package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readKeyAge is how long an answer of the database is believed. It is asked again often enough for a revoked key to end
// within a second, without notices that could be lost.
const readKeyAge = 500 * time.Millisecond

// maxReadKeys bounds the memory; when it is full it starts anew.
const maxReadKeys = 10_000

// ReadKeys looks up the API keys with the scope Read, one at a time: the database login of the query tier may not see
// the keys of all accounts. A change reaches it within a second. It is safe for concurrent use.
type ReadKeys struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu      sync.Mutex
	known   map[Hash]readKey
	lookups chan struct{} // bounds concurrent queries
}

type readKey struct {
	Credential
	good bool
	at   time.Time // before the database was asked
}

// NewReadKeys returns a ReadKeys that has asked nothing. pool is owned by the caller.
func NewReadKeys(pool *pgxpool.Pool, now func() time.Time) *ReadKeys {
	return &ReadKeys{pool: pool, now: now, known: map[Hash]readKey{}, lookups: make(chan struct{}, maxLookups)}
}

// Lookup returns what the key with this hash stands for. ok is false for a key that does not exist, is not for reading,
// was revoked or has expired. The error is ErrUnknown.
func (k *ReadKeys) Lookup(ctx context.Context, h Hash) (c Credential, ok bool, err error) {
	found, ok := k.fresh(h)
	if !ok {
		if found, err = k.ask(ctx, h); err != nil {
			return Credential{}, false, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	return found.Credential, found.good && (found.ExpiresAt.IsZero() || k.now().Before(found.ExpiresAt)), nil
}

func (k *ReadKeys) fresh(h Hash) (readKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.known[h]
	return found, ok && k.now().Sub(found.at) < readKeyAge
}

const selectReadKey = `SELECT secret_sha256, id, account_id, plan, expires_at, scopes, agents FROM key_that_reads($1)`

func (k *ReadKeys) ask(ctx context.Context, h Hash) (found readKey, err error) {
	// A client that hangs up must not cost a connection to the database.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	select {
	case k.lookups <- struct{}{}:
		defer func() { <-k.lookups }()
	case <-ctx.Done():
		return readKey{}, ctx.Err()
	}
	if found, ok := k.fresh(h); ok {
		return found, nil // Another request asked meanwhile.
	}
	found.at = k.now()
	_, found.Credential, err = scanCredential(k.pool.QueryRow(ctx, selectReadKey, h[:]))
	found.good = err == nil
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return readKey{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= maxReadKeys {
		clear(k.known)
	}
	k.known[h] = found
	return found, nil
}
