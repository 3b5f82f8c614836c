package ingest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// statements keeps what is sent to a database.
type statements struct {
	mu   sync.Mutex
	args [][]any
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.args = append(s.args, data.Args)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.args)
}

// Guessing keys costs the database nothing unless the checksum fits, and then once for each key. It is asked with the
// SHA-256 of the whole key, so that neither the time that it takes nor the answer depends on how much of a key is right.
func TestGuessedKeysDoNotReachTheDatabase(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	seen := &statements{}
	config := db.Pool.Config()
	config.ConnConfig.Tracer = seen
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	store := account.NewStore(db.Pool, time.Now)
	owner, err := store.CreateAccount(t.Context(), "test", account.Enterprise)
	if err != nil {
		t.Fatal(err)
	}
	newKey := func(expires *time.Time) (account.Key, string) {
		t.Helper()
		key, secret, err := store.CreateKey(t.Context(), owner.ID, account.NewKey{Name: "test", ExpiresAt: expires})
		if err != nil {
			t.Fatal(err)
		}
		return key, secret
	}
	_, good := newKey(nil)
	past := time.Now().Add(-time.Hour)
	_, expired := newKey(&past)
	key, revoked := newKey(nil)
	if err := store.RevokeKey(t.Context(), owner.ID, key.ID); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	// It is not kept fresh: whatever could be a key is looked up.
	f.ingest.keys = account.NewDirectory(traced, slog.New(slog.DiscardHandler), time.Now)

	r := &http.Request{Header: http.Header{}}
	guess := func(secret string) {
		t.Helper()
		r.Header["Authorization"] = []string{"Bearer " + secret}
		if _, err := f.ingest.authenticate(r); err == nil {
			t.Fatalf("%q is accepted", secret)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	made := []byte(good)
	for range 200_000 {
		// Half of them have a part of a good key.
		for i := len(account.KeyPrefix) + random.IntN(2)*random.IntN(30); i < len(made); i++ {
			made[i] = letters[random.IntN(len(letters))]
		}
		guess(string(made))
		copy(made, good)
	}
	for _, typo := range []string{"", good[:20], good + "x", good[:47] + "-", strings.ToUpper(good), "outlay_test_" + good[12:], "x" + good[1:]} {
		guess(typo)
	}
	if n := seen.count(); n != 0 {
		t.Errorf("%d statements for keys that cannot be", n)
	}

	unknown := account.NewSecret()
	ask := func(secret string) answer {
		return f.post(t, "/v1/track", `{"agent":"a"}`, "Authorization", "Bearer "+secret, "X-Request-Id", "same")
	}
	first := ask(unknown)
	for range 20 {
		ask(unknown)
	}
	if n := seen.count(); first.status != http.StatusUnauthorized || n != 1 {
		t.Errorf("status %d, %d statements for one unknown key, want 401 and 1", first.status, n)
	}
	for name, secret := range map[string]string{"expired": expired, "revoked": revoked} {
		if got := ask(secret); got.status != first.status || !cmp.Equal(got.body, first.body) {
			t.Errorf("a key that is %s is answered %d %v, an unknown one %v", name, got.status, got.body, first.body)
		}
	}
	if got := ask(good); got.status != http.StatusOK {
		t.Errorf("the good key is answered %d %v", got.status, got.body)
	}
	for _, args := range seen.args {
		hash, ok := args[len(args)-1].([]byte)
		if len(args) != 1 || !ok || len(hash) != len(account.Hash{}) {
			t.Errorf("the database is asked with %v, want a hash alone", args)
		}
	}
}
