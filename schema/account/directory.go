package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// Credential is what an API key stands for.
type Credential struct {
	KeyID     schema.ID
	AccountID schema.ID
	Plan      Plan
	// ExpiresAt is zero for a key without an end.
	ExpiresAt time.Time
	Grant
}

// ErrUnknown is returned when it cannot be found out whether a key is good: it
// is not in memory and the database does not answer.
var ErrUnknown = errors.New("cannot look the key up")

// ErrTooManyLookups is returned for a key that is not in memory when too many from its network turned out not to be good.
var ErrTooManyLookups = errors.New("too many look-ups of unknown keys from this network")

// Directory holds every valid API key in memory, so that a request costs no
// query and goes on being served while the database is away. A change reaches it
// within a second. It is safe for concurrent use.
type Directory struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	now  func() time.Time

	keys     atomic.Pointer[map[Hash]Credential]
	loadedAt atomic.Int64 // Unix nanoseconds, 0 before the first load

	mu      sync.Mutex
	refused map[Hash]struct{} // keys that the database does not know either; one that it knows later comes into keys
	lookups chan struct{}     // bounds concurrent queries for keys not in memory

	networks networks
}

// maxRefused bounds the memory of refused keys; when it is full it starts anew.
const maxRefused = 10_000

// maxLookups bounds how many queries for unknown keys run at once.
const maxLookups = 4

// NewDirectory returns an empty Directory; Run fills it. pool is owned by the
// caller.
func NewDirectory(pool *pgxpool.Pool, log *slog.Logger, now func() time.Time) *Directory {
	return &Directory{
		pool: pool, log: log, now: now,
		refused:  map[Hash]struct{}{},
		lookups:  make(chan struct{}, maxLookups),
		networks: networks{now: now},
	}
}

// Run keeps the keys fresh until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	w := Watch{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
		},
		Load: d.load,
		Log:  d.log,
	}
	w.Run(ctx)
}

// Ready returns nil once the keys were loaded.
func (d *Directory) Ready() error {
	if d.keys.Load() == nil {
		return errors.New("api keys are not loaded yet")
	}
	return nil
}

// Age is the time since the keys were last read, or 0 before that.
func (d *Directory) Age() time.Duration {
	at := d.loadedAt.Load()
	if at == 0 {
		return 0
	}
	return d.now().Sub(time.Unix(0, at))
}

// RefusedLookups is the number of look-ups that were refused with ErrTooManyLookups.
func (d *Directory) RefusedLookups() int64 { return d.networks.refused.Load() }

// Size is the number of keys in memory.
func (d *Directory) Size() int {
	keys := d.keys.Load()
	if keys == nil {
		return 0
	}
	return len(*keys)
}

const selectCredentials = `
SELECT k.secret_sha256, k.id, k.account_id, a.plan, k.expires_at, k.scopes, k.agents
FROM api_keys k JOIN accounts a ON a.id = k.account_id
WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`

func (d *Directory) load(ctx context.Context, conn *pgx.Conn) error {
	// An error of Query is reported by Err after the loop.
	rows, _ := conn.Query(ctx, selectCredentials)
	keys := map[Hash]Credential{}
	for rows.Next() {
		hash, c, err := scanCredential(rows)
		if err != nil {
			return err
		}
		keys[hash] = c
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read api keys: %w", err)
	}
	d.keys.Store(&keys)
	d.loadedAt.Store(d.now().UnixNano())
	return nil
}

func scanCredential(row pgx.Row) (Hash, Credential, error) {
	var (
		hash    []byte
		c       Credential
		expires *time.Time
	)
	if err := row.Scan(&hash, &c.KeyID, &c.AccountID, &c.Plan, &expires, &c.Scopes, &c.Agents); err != nil {
		return Hash{}, Credential{}, err
	}
	if expires != nil {
		c.ExpiresAt = *expires
	}
	return Hash(hash), c, nil
}

// Lookup returns what the key with this hash stands for. ok is false for a key
// that does not exist, was revoked or has expired. The error is ErrUnknown or
// ErrTooManyLookups; from is asked for the client's address when the key is not in memory.
func (d *Directory) Lookup(ctx context.Context, h Hash, from Asker) (c Credential, ok bool, err error) {
	c, ok, known := d.inMemory(h)
	if known {
		return c, ok, nil
	}
	if d.keys.Load() == nil {
		// Good keys are not in memory either: they must not use up the bound.
		return d.ask(ctx, h)
	}
	if !d.networks.take(from.ClientIP(), h) {
		return Credential{}, false, ErrTooManyLookups
	}
	c, ok, err = d.ask(ctx, h)
	if ok || err != nil {
		d.networks.giveBack(h)
	}
	return c, ok, err
}

// inMemory returns what is known of a key without asking the database.
func (d *Directory) inMemory(h Hash) (c Credential, ok, known bool) {
	if keys := d.keys.Load(); keys != nil {
		if c, found := (*keys)[h]; found {
			return c, c.ExpiresAt.IsZero() || d.now().Before(c.ExpiresAt), true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, refused := d.refused[h]
	return Credential{}, false, refused
}

const selectCredential = selectCredentials + ` AND k.secret_sha256 = $1`

// askTimeout bounds the query for a key that is not in memory.
const askTimeout = 2 * time.Second

// ask looks for a key that was made so recently that memory does not have it.
func (d *Directory) ask(ctx context.Context, h Hash) (Credential, bool, error) {
	// A client that hangs up must not cost a connection to the database.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	select {
	case d.lookups <- struct{}{}:
		defer func() { <-d.lookups }()
	case <-ctx.Done():
		return Credential{}, false, ErrUnknown
	}
	if c, ok, known := d.inMemory(h); known {
		return c, ok, nil // Another request asked meanwhile.
	}
	_, c, err := scanCredential(d.pool.QueryRow(ctx, selectCredential, h[:]))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		d.refuse(h)
		return Credential{}, false, nil
	case err != nil:
		d.log.WarnContext(ctx, "api key look-up failed", "error", err)
		return Credential{}, false, ErrUnknown
	}
	return c, true, nil
}

func (d *Directory) refuse(h Hash) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) >= maxRefused {
		clear(d.refused)
	}
	d.refused[h] = struct{}{}
}
