// Package usage is the read side of the pipeline: the SQL that answers what was
// spent, by event, agent, session and bucket of time. Every statement names the
// account, reads inside one snapshot and is bounded by a timeout; every sum is an
// integer from the table to the JSON. Who may ask is left to package auth, HTTP
// to package query.
package usage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

// ErrNotFound is returned for an id or name that the account does not have.
var ErrNotFound = errors.New("not found")

// ErrTimeout is returned when a statement ran longer than it may.
var ErrTimeout = errors.New("the query took too long")

// Store answers questions about one account at a time. It is safe for concurrent
// use.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

// NewStore returns a Store on pool, which the caller owns. timeout bounds every
// single statement.
func NewStore(pool *pgxpool.Pool, timeout time.Duration) *Store {
	return &Store{pool: pool, timeout: timeout}
}

// read runs f in a read-only transaction that sees one snapshot and belongs to
// one account.
func (s *Store) read(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.transact(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"+s.settings(accountID), f)
}

// write runs f in a transaction that belongs to one account.
func (s *Store) write(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.transact(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"+s.settings(accountID), f)
}

// transact runs f between begin and a commit. A client that goes away does not
// cancel a statement, which would close the connection; the statement timeout ends
// it.
func (s *Store) transact(ctx context.Context, begin string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.timeout)
	defer cancel()
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// After Commit this does nothing.
	defer func() { _ = tx.Rollback(ctx) }()
	if err := f(ctx, tx); err != nil {
		return timeoutOr(err)
	}
	return tx.Commit(ctx)
}

// settings go with BEGIN in one round trip: the timeout and the account, which
// row-level security reads. Nothing of it comes from a client. Compiling a
// statement takes longer than any of these runs.
func (s *Store) settings(accountID schema.ID) string {
	return "SET LOCAL statement_timeout = " + strconv.FormatInt(s.timeout.Milliseconds(), 10) + ";" +
		"SET LOCAL jit = off;" +
		"SET LOCAL outlay.account_id = '" + hex.EncodeToString(accountID[:]) + "'"
}

// queryCanceled is the SQLSTATE of a statement that the timeout ended.
const queryCanceled = "57014"

func timeoutOr(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == queryCanceled {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return err
}

// Ping returns nil when the database answers and has been migrated.
func (s *Store) Ping(ctx context.Context) error {
	var n int
	if err := s.pool.QueryRow(ctx, pingDatabase).Scan(&n); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

const pingDatabase = `SELECT count(*) FROM (SELECT FROM accounts LIMIT 1) AS a`
