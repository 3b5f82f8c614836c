package account

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

type address string

func (a address) ClientIP() string { return string(a) }

// newHash returns the hash of a new key.
func newHash(t *testing.T) Hash {
	t.Helper()
	h, ok := ParseSecret(NewSecret())
	if !ok {
		t.Fatal("a new key is refused")
	}
	return h
}

// A key counts once in a minute, and not at all when it is given back.
func TestKeysThatCountForANetwork(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Minute)
	n := networks{now: func() time.Time { return now }}
	same := newHash(t)
	for range 2 * LookupsPerMinute {
		passing := newHash(t)
		if !n.take("192.0.2.1", same) || !n.take("192.0.2.2", passing) {
			t.Fatal("refused")
		}
		n.giveBack(passing)
	}
	for i := range LookupsPerMinute {
		if took := n.take("192.0.2.3", newHash(t)); took != (i < LookupsPerMinute-1) {
			t.Fatalf("key %d besides the one that was counted: %v", i, took)
		}
	}
	if !n.take("192.0.2.4", same) {
		t.Error("a key that was counted is refused")
	}
	now = now.Add(time.Minute)
	if !n.take("192.0.2.3", newHash(t)) {
		t.Error("refused in the next minute")
	}
}

// Before the keys were read for the first time, a network that has used up its look-ups is not refused: any key may be a good one.
func TestNothingCountsUntilKeysWereRead(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "host=192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	now := time.Now() // All of it is within a minute.
	d := NewDirectory(pool, slog.New(slog.DiscardHandler), func() time.Time { return now })
	for range LookupsPerMinute {
		d.networks.take("", newHash(t))
	}
	if _, _, err := d.Lookup(t.Context(), newHash(t), address("")); !errors.Is(err, ErrUnknown) {
		t.Errorf("a key is answered %v", err)
	}
	d.keys.Store(&map[Hash]Credential{})
	if _, _, err := d.Lookup(t.Context(), newHash(t), address("")); !errors.Is(err, ErrTooManyLookups) {
		t.Errorf("after that an unknown key is answered %v", err)
	}
}
