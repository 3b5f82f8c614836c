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

// readKeyAge is how long the database is believed that a key is good. It is asked again often enough for a revoked key to end
// within a second, without notices that could be lost.
const readKeyAge = 500 * time.Millisecond

// refusedReadKeyAge is how long it is believed that a key is not good. None becomes good: the hash of a new one is a new one.
const refusedReadKeyAge = time.Minute

// maxReadKeys bounds the memory of good keys, and of those that are not; when it is full it starts anew.
const maxReadKeys = 10_000

// ReadKeys looks up the API keys with the scope Read, one at a time: the database login of the query tier may not see
// the keys of all accounts. A change reaches it within a second. It is safe for concurrent use.
type ReadKeys struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu sync.Mutex
	// Guessed keys are apart, so that many of them push out no good one.
	good    map[Hash]readKey
	refused map[Hash]time.Time // before the database was asked

	// Both bound concurrent queries: who guesses keys holds up no key that was good when it was last asked for.
	refreshes chan struct{}
	lookups   chan struct{}

	networks networks
}

type readKey struct {
	Credential
	at time.Time // before the database was asked
}

// NewReadKeys returns a ReadKeys that has asked nothing. pool is owned by the caller.
func NewReadKeys(pool *pgxpool.Pool, now func() time.Time) *ReadKeys {
	return &ReadKeys{
		pool: pool, now: now,
		good: map[Hash]readKey{}, refused: map[Hash]time.Time{},
		refreshes: make(chan struct{}, maxLookups), lookups: make(chan struct{}, maxLookups),
		networks: networks{now: now},
	}
}

// Lookup returns what the key with this hash stands for. ok is false for a key that does not exist, is not for reading,
// was revoked or has expired. The error is ErrUnknown or ErrTooManyLookups; from is asked for the client's address when it is not
// known whether the key is good.
func (k *ReadKeys) Lookup(ctx context.Context, h Hash, from Asker) (c Credential, ok bool, err error) {
	c, standing := k.remembered(h)
	switch standing {
	case goodKey:
		return c, true, nil
	case refusedKey:
		return Credential{}, false, nil
	case staleKey:
		return k.ask(ctx, h, k.refreshes)
	}
	if !k.networks.take(from.ClientIP(), h) {
		return Credential{}, false, ErrTooManyLookups
	}
	c, ok, err = k.ask(ctx, h, k.lookups)
	if ok || err != nil {
		k.networks.giveBack(h)
	}
	return c, ok, err
}

// standing is what is known of a key without asking the database.
type standing int

const (
	unknownKey standing = iota
	goodKey
	staleKey // was good, and has to be asked for again
	refusedKey
)

func (k *ReadKeys) remembered(h Hash) (Credential, standing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found, ok := k.good[h]; ok {
		switch now := k.now(); {
		case now.Sub(found.at) >= readKeyAge:
			return Credential{}, staleKey
		case !found.ExpiresAt.IsZero() && !now.Before(found.ExpiresAt):
			return Credential{}, refusedKey
		}
		return found.Credential, goodKey
	}
	if at, ok := k.refused[h]; ok && k.now().Sub(at) < refusedReadKeyAge {
		return Credential{}, refusedKey
	}
	return Credential{}, unknownKey
}

const selectReadKey = `SELECT secret_sha256, id, account_id, plan, expires_at, scopes, agents FROM key_that_reads($1)`

// ask asks the database for a key, in one of the slots.
func (k *ReadKeys) ask(ctx context.Context, h Hash, slots chan struct{}) (Credential, bool, error) {
	// A client that hangs up must not cost a connection to the database.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return Credential{}, false, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
	if c, standing := k.remembered(h); standing == goodKey || standing == refusedKey {
		return c, standing == goodKey, nil // Another request asked meanwhile.
	}
	at := k.now()
	_, c, err := scanCredential(k.pool.QueryRow(ctx, selectReadKey, h[:]))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, false, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	k.remember(h, c, err == nil, at)
	return c, err == nil, nil
}

func (k *ReadKeys) remember(h Hash, c Credential, good bool, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if good {
		if len(k.good) >= maxReadKeys {
			clear(k.good)
		}
		k.good[h] = readKey{c, at}
		return
	}
	delete(k.good, h)
	if len(k.refused) >= maxReadKeys {
		clear(k.refused)
	}
	k.refused[h] = at
}
