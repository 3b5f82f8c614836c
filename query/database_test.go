package query_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/schematest"
)

// database returns a migrated database of the best edition there is.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return temporary(t, schematest.Database(t).Pool)
}

// eachEdition runs f on every edition there is.
func eachEdition(t *testing.T, f func(t *testing.T, pool *pgxpool.Pool)) {
	t.Helper()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) { f(t, temporary(t, db.Pool)) })
}

// TEMPORARY until the migrations are merged.
func temporary(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	var there bool
	if err := pool.QueryRow(t.Context(), `SELECT to_regclass('refresh_tokens') IS NOT NULL`).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if !there {
		text, err := os.ReadFile("/work/notes/query-migrations.sql")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
