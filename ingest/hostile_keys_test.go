package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/httpserver"
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

	g, _ := gin.CreateTestContext(httptest.NewRecorder())
	g.Request = &http.Request{Header: http.Header{}}
	guess := func(secret string) {
		t.Helper()
		g.Request.Header["Authorization"] = []string{"Bearer " + secret}
		if _, err := f.ingest.authenticate(g); err == nil {
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

// lookups counts the look-ups of single keys.
func (s *statements) lookups() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, args := range s.args {
		if len(args) == 1 {
			if hash, ok := args[0].([]byte); ok && len(hash) == len(account.Hash{}) {
				n++
			}
		}
	}
	return n
}

// keepFresh runs the directory until the test ends, and returns once it has read the keys.
func keepFresh(t *testing.T, directory *account.Directory) {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); directory.Run(running) }()
	t.Cleanup(func() { stop(); <-stopped })
	for deadline := time.Now().Add(10 * time.Second); directory.Ready() != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// A network that guesses keys is refused without a query after the first ones of a minute. Keys that are in memory work from there, and
// one that was just made within a second; other networks notice nothing.
func TestNetworkThatGuessesKeysIsLimited(t *testing.T) {
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
	newKey := func() string {
		t.Helper()
		_, secret, err := store.CreateKey(t.Context(), owner.ID, account.NewKey{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	known := newKey()

	now := time.Now() // All of it is within a minute.
	directory := account.NewDirectory(traced, slog.New(slog.DiscardHandler), func() time.Time { return now })
	keepFresh(t, directory)

	f := newFixture(t, nil)
	f.ingest.keys = directory
	f.ingest.proxies = []string{"127.0.0.0/8"}
	f.server = startServer(t, f.ingest.Handler(), httpserver.Config{})
	from := func(address, secret string) answer {
		t.Helper()
		return f.post(t, "/v1/track", `{"agent":"a"}`, "Authorization", "Bearer "+secret, "X-Forwarded-For", address)
	}
	for _, network := range []string{"203.0.113.%d", "2001:db8:0:1::%x"} {
		before := seen.lookups()
		for i := range account.LookupsPerMinute {
			if got := from(fmt.Sprintf(network, i), account.NewSecret()); got.status != http.StatusUnauthorized {
				t.Fatalf("guess %d from %s is answered %d %v", i, network, got.status, got.body)
			}
		}
		for i := range 50 {
			got := from(fmt.Sprintf(network, 200+i), account.NewSecret())
			if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
				t.Fatalf("one guess more from %s is answered %d %v", network, got.status, got.body)
			}
		}
		if n := seen.lookups() - before; n != account.LookupsPerMinute {
			t.Errorf("%d look-ups for %s, want %d", n, network, account.LookupsPerMinute)
		}
		if got := from(fmt.Sprintf(network, 1), known); got.status != http.StatusOK {
			t.Errorf("a known key from %s is answered %d %v", network, got.status, got.body)
		}
		fresh, made := newKey(), time.Now()
		for got := from(fmt.Sprintf(network, 1), fresh); got.status != http.StatusOK; got = from(fmt.Sprintf(network, 1), fresh) {
			if got.status != http.StatusTooManyRequests || time.Since(made) > time.Second {
				t.Errorf("%v after it was made, a key from %s is answered %d %v", time.Since(made), network, got.status, got.body)
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if n := directory.RefusedLookups(); n < 100 {
		t.Errorf("%d refused look-ups counted, want 100 and more", n)
	}
	for _, neighbour := range []string{"203.0.114.1", "2001:db8:0:2::1", "127.0.0.1"} {
		if got := from(neighbour, account.NewSecret()); got.status != http.StatusUnauthorized {
			t.Errorf("a wrong key from %s is answered %d %v", neighbour, got.status, got.body)
		}
	}
}

// Without a proxy that is trusted, the address in a header changes nothing.
func TestForgedAddressDoesNotLiftTheLimitOfGuesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	directory := account.NewDirectory(schematest.Database(t).Pool, slog.New(slog.DiscardHandler), time.Now)
	keepFresh(t, directory)
	f.ingest.keys = directory
	status := map[int]int{}
	for i := range 2*account.LookupsPerMinute + 1 { // One more than two minutes allow.
		address := fmt.Sprintf("198.51.%d.1", i)
		got := f.post(t, "/v1/track", `{"agent":"a"}`, "Authorization", "Bearer "+account.NewSecret(), "X-Forwarded-For", address, "X-Real-IP", address)
		status[got.status]++
	}
	if status[http.StatusUnauthorized] < account.LookupsPerMinute || status[http.StatusTooManyRequests] == 0 {
		t.Errorf("guesses with forged addresses are answered %v", status)
	}
}

// While keys cannot be looked up, before they were read for the first time or after, nobody is refused for sending many: any of them may be good.
func TestKeysThatCannotBeLookedUpDoNotCount(t *testing.T) {
	t.Parallel()
	for _, loaded := range []bool{false, true} {
		pool, err := pgxpool.NewWithConfig(t.Context(), schematest.Database(t).Pool.Config())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now() // All of it is within a minute.
		directory := account.NewDirectory(pool, slog.New(slog.DiscardHandler), func() time.Time { return now })
		if loaded {
			keepFresh(t, directory) // On a connection of its own.
		}
		pool.Close()
		f := newFixture(t, nil)
		f.ingest.keys = directory
		for i := range 2 * account.LookupsPerMinute {
			if got := f.post(t, "/v1/track", `{"agent":"a"}`, "Authorization", "Bearer "+account.NewSecret()); got.status != http.StatusInternalServerError {
				t.Fatalf("loaded %v: key %d is answered %d %v, want 500", loaded, i, got.status, got.body)
			}
		}
	}
}

// A key that was revoked is looked up once and answered alike ever after, however often and from however many requests at once it comes,
// and however often the keys are read anew. A key that was just made counts for nobody.
func TestRevokedKeyStaysRevoked(t *testing.T) {
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
	key, revoked, err := store.CreateKey(t.Context(), owner.ID, account.NewKey{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.RevokeKey(t.Context(), owner.ID, key.ID); err != nil {
		t.Fatal(err)
	}
	now := time.Now() // All of it is within a minute.
	directory := account.NewDirectory(traced, slog.New(slog.DiscardHandler), func() time.Time { return now })
	keepFresh(t, directory)
	f := newFixture(t, nil)
	f.ingest.keys = directory
	ask := func(secret string) int {
		return f.post(t, "/v1/track", `{"agent":"a"}`, "Authorization", "Bearer "+secret).status
	}

	var asking sync.WaitGroup
	for range 2 * account.LookupsPerMinute {
		asking.Go(func() {
			if status := ask(revoked); status != http.StatusUnauthorized {
				t.Errorf("one of many requests at once is answered %d", status)
			}
		})
	}
	asking.Wait()
	before := seen.lookups()
	for range account.LookupsPerMinute - 2 {
		ask(account.NewSecret())
	}
	for i := range 3 {
		_, fresh, err := store.CreateKey(t.Context(), owner.ID, account.NewKey{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if status := ask(fresh); status != http.StatusOK { // The keys are read anew.
			t.Errorf("a key that was just made is answered %d", status)
		}
		for deadline := time.Now().Add(10 * time.Second); directory.Size() <= i && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		lookups := seen.lookups()
		if status := ask(revoked); status != http.StatusUnauthorized || seen.lookups() != lookups {
			t.Errorf("the key is answered %d after %d more look-ups", status, seen.lookups()-lookups)
		}
	}
	if n := seen.lookups() - before; n > account.LookupsPerMinute+1 || before > 4 {
		t.Errorf("%d look-ups for the key, %d for the others", before, n)
	}
}
