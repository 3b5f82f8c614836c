package pgdb

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that callers tell apart.
const (
	UniqueViolation      = "23505"
	SerializationFailure = "40001"
	// QueryCanceled is also that of a statement that took longer than statement_timeout.
	QueryCanceled = "57014"
)

// SQLState returns the SQLSTATE with which the database refused a statement, or "" for any other error.
func SQLState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}
