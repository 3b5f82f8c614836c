package migrations_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

var quiet = slog.New(slog.DiscardHandler)

// connect opens a connection of the test's own.
func connect(t *testing.T, db *schematest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the only value of the only row.
func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// column returns the values of the only column.
func column[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, _ := conn.Query(t.Context(), sql, args...)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

func up(t *testing.T, conn *pgx.Conn, opt migrations.Options) {
	t.Helper()
	opt.Log = quiet
	if err := migrations.Up(t.Context(), conn, opt); err != nil {
		t.Fatal(err)
	}
}

// eachEmpty runs f as a parallel subtest on a database of every edition that has nothing in it.
func eachEmpty(t *testing.T, f func(t *testing.T, db *schematest.DB)) {
	t.Helper()
	for _, e := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			f(t, schematest.Empty(t, e))
		})
	}
}

const day = 24 * time.Hour
