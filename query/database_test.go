package query_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/schematest"
)

// database returns a migrated database of the best edition there is.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return schematest.Database(t).Pool
}

// eachEdition runs f on every edition there is.
func eachEdition(t *testing.T, f func(t *testing.T, pool *pgxpool.Pool)) {
	t.Helper()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) { f(t, db.Pool) })
}
