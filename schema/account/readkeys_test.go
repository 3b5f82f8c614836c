package account

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Keys that are guessed neither push good ones out of memory nor hold up asking for them again.
func TestGuessedKeysLeaveGoodReadKeysAlone(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "host=192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	pool.Close() // It answers at once that it is closed.
	now := time.Now()
	k := NewReadKeys(pool, func() time.Time { return now })
	good, credential := Hash{1}, Credential{Plan: Pro}
	k.remember(good, credential, true, now)
	for i := range maxReadKeys + 1 {
		k.remember(Hash{2, byte(i), byte(i >> 8)}, Credential{}, false, now)
	}
	if len(k.refused) > maxReadKeys {
		t.Errorf("%d keys that are not good are remembered", len(k.refused))
	}
	if c, ok, err := k.Lookup(t.Context(), good, address("")); c.Plan != Pro || !ok || err != nil {
		t.Errorf("the good key is answered %v %v %v", c, ok, err)
	}

	for range maxLookups {
		k.lookups <- struct{}{}
	}
	for range LookupsPerMinute {
		k.networks.take("", newHash(t))
	}
	now = now.Add(readKeyAge)
	if _, _, err := k.Lookup(t.Context(), good, address("")); !errors.Is(err, ErrUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking again for the good key ends with %v, want that of the database", err)
	}
	if _, _, err := k.Lookup(t.Context(), newHash(t), address("")); !errors.Is(err, ErrTooManyLookups) {
		t.Errorf("an unknown key is answered %v", err)
	}
}
