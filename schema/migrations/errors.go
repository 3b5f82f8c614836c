package migrations

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that are expected here.
const (
	uniqueViolation       = "23505"
	insufficientPrivilege = "42501"
	duplicateObject       = "42710"
	lockNotAvailable      = "55P03"
	internalError         = "XX000"
)

// hasCode reports whether err is PostgreSQL's error with one of the SQLSTATEs.
func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains(codes, pgErr.Code)
}
