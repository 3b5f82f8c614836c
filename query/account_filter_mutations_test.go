package query_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/usage"
)

// forgetfulPool leads to the same database, and takes the condition on the account out of
// every statement on its way there. The counter says of how many.
func forgetfulPool(t *testing.T, pool *pgxpool.Pool) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	config := pool.Config()
	count := new(atomic.Int64)
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &forgetfulConn{Conn: conn, count: count}, err
	}
	forgetful, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forgetful.Close)
	return forgetful, count
}

// forgetfulConn rewrites the statements that a client prepares. pgx writes whole messages.
type forgetfulConn struct {
	net.Conn
	count   *atomic.Int64
	started bool
}

var accountCondition = regexp.MustCompile(`\b(\w+\.)?account_id = \$1\b`)

// Write passes the messages of the protocol on: a letter, the length, the content. The
// first one has no letter.
func (c *forgetfulConn) Write(b []byte) (int, error) {
	if !c.started {
		c.started = true
		return c.Conn.Write(b)
	}
	var out bytes.Buffer
	for rest := b; len(rest) > 0; {
		length := 1 + int(binary.BigEndian.Uint32(rest[1:5]))
		out.Write(c.forget(rest[:length]))
		rest = rest[length:]
	}
	if _, err := c.Conn.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// forget rewrites a message that prepares a statement.
func (c *forgetfulConn) forget(message []byte) []byte {
	if message[0] != 'P' || !accountCondition.Match(message) {
		return message
	}
	c.count.Add(1)
	content := accountCondition.ReplaceAll(message[5:], []byte("($$1::uuid IS NOT NULL)"))
	return append(binary.BigEndian.AppendUint32([]byte{'P'}, uint32(4+len(content))), content...)
}

// serve starts a server and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	return front.URL
}

// Whatever the statements forget: with the condition on the account taken out of every one
// of them, an account reads what it reads otherwise, to the byte, and nothing of another's.
func TestForgottenConditionsShowNothing(t *testing.T) {
	t.Parallel()
	pool, now := database(t), sameQuarter()
	w := newWorldWith(t, pool, func(c *query.Config) { c.Now = now })
	forgetful, rewritten := forgetfulPool(t, pool)
	var strange int
	// The rewriting works: who is not held back by the role sees all accounts.
	if err := forgetful.QueryRow(t.Context(), `SELECT count(*) FROM users WHERE account_id = $1`, w.alice.account).Scan(&strange); err != nil || strange != 2 {
		t.Fatalf("%d users without the condition, %v, want those of both accounts", strange, err)
	}
	server, err := query.New(query.Config{Pool: forgetful, Keys: w.keys, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	front := serve(t, server.Handler())
	alices, bobs := w.alice.ids("alices"), w.bob.ids("bobs")
	table := endpoints()
	want := w.alice.everything(table, alices)
	before := rewritten.Load()
	w.url = front
	got := w.alice.everything(table, alices)
	if n := rewritten.Load() - before; n < 20 {
		t.Errorf("%d statements were without their condition, want most", n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers with the condition on the account (-) and without (+):\n%s", diff)
	}
	for i := range table {
		if e := &table[i]; e.method == http.MethodGet && e.role != "" {
			e.findsNothing(w, bobs)
		}
	}
	if guarded, err := usage.NewStore(forgetful, time.Second).Guarded(t.Context()); err != nil || !guarded {
		t.Errorf("Guarded = %v, %v", guarded, err)
	}
}
