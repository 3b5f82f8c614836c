package schematest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/migrations"
)

// DB is a database of one test's own. It goes away with the test.
type DB struct {
	URL     string // For a client that connects by itself, as a superuser.
	Pool    *pgxpool.Pool
	Edition migrations.Edition
}

// Database returns a migrated database of the best edition that the machine has.
func Database(t testing.TB) *DB {
	t.Helper()
	best := migrations.Plain
	if all := Editions(); len(all) > 0 {
		best = all[len(all)-1]
	}
	return DatabaseOf(t, best)
}

// DatabaseOf returns a migrated database of the given edition; the test is skipped when the machine lacks it.
func DatabaseOf(t testing.TB, e migrations.Edition) *DB {
	t.Helper()
	s := serverFor(t, e)
	template, err := s.template()
	if err != nil {
		t.Fatal(err)
	}
	return s.newDatabase(t, template)
}

// EachEdition runs f as a parallel subtest on a migrated database of every edition; those that the machine lacks are skipped.
func EachEdition(t *testing.T, f func(t *testing.T, db *DB)) {
	t.Helper()
	for _, e := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			f(t, DatabaseOf(t, e))
		})
	}
}

// Empty returns a database of the given edition with nothing in it, for tests of the migrations themselves.
func Empty(t testing.TB, e migrations.Edition) *DB {
	t.Helper()
	return serverFor(t, e).newDatabase(t, "template1")
}

// patience bounds what is done to a database before and after a test.
const patience = 5 * time.Minute

// newDatabase makes a database and sees to its end.
func (s *server) newDatabase(t testing.TB, template string) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	name := databaseName(t.Name())
	if err := s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	db := &DB{URL: s.urlOf(name), Edition: s.edition}
	cfg, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 10
	if db.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closePool(t, db.Pool)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.admin(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return db
}

// As returns a pool on pool's database that is signed in as a role, such as "outlay_query". It is closed with the test.
func As(t testing.TB, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	cfg.ConnConfig.User, cfg.ConnConfig.Password = role, TierPassword
	as, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, as) })
	return as
}

// closePool closes the pool, and fails the test when something still holds a connection of it.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("the test left connections of its pool in use")
	}
}

// databaseName makes an unused name out of a test's.
func databaseName(test string) string {
	return fmt.Sprintf("t_%.30s_%.10s", word(test), strings.ToLower(rand.Text()))
}

// word keeps of a test's name what may stand in the name of a database and of a topic.
func word(test string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(test))
}

// urlOf is the URL of a database on the server.
func (s *server) urlOf(name string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		panic("BUG: the URL was connected to and does not parse: " + err.Error())
	}
	u.Path = name
	return u.String()
}

// admin runs a statement outside of any transaction. A connection for each keeps no goroutine that a leak check would find.
func (s *server) admin(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
