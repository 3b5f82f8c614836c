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
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
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
	// role is empty until it is known whether this installation has queryRole.
	role atomic.Pointer[string]
}

// NewStore returns a Store on pool, which the caller owns. timeout bounds every
// single statement.
func NewStore(pool *pgxpool.Pool, timeout time.Duration) *Store {
	return &Store{pool: pool, timeout: timeout}
}

// queryRole sees the rows of one account only, whatever a statement asks for. A
// database whose user may not make roles lacks it; then the statements' own
// conditions stand alone.
const queryRole = "outlay_query"

const mayTakeRole = `
SELECT coalesce((
	SELECT pg_has_role(current_user, r.oid, 'MEMBER') AND has_schema_privilege(r.oid, n.oid, 'USAGE')
	FROM pg_roles r, pg_namespace n WHERE r.rolname = $1 AND n.nspname = 'tenant'), false)`

// Guarded reports whether queryRole stands behind the statements.
func (s *Store) Guarded(ctx context.Context) (bool, error) {
	if role := s.role.Load(); role != nil {
		return *role != "", nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	var may bool
	if err := s.pool.QueryRow(ctx, mayTakeRole, queryRole).Scan(&may); err != nil {
		return false, fmt.Errorf("look for role %s: %w", queryRole, err)
	}
	role := ""
	if may {
		role = queryRole
	}
	s.role.Store(&role)
	return may, nil
}

// read runs f in a read-only transaction that sees one snapshot and belongs to
// one account.
func (s *Store) read(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.transactAs(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;", accountID, f)
}

// Within runs f in a read-only transaction of one account, for what other packages
// read.
func (s *Store) Within(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.read(ctx, accountID, f)
}

// write runs f in a transaction that belongs to one account.
func (s *Store) write(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.transactAs(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;", accountID, f)
}

// Read returns what asks single statements for an account, see Once.
func (s *Store) Read(accountID schema.ID) pgdb.DB { return s.Once(accountID) }

// Write runs f in a transaction of one account, for what other packages write.
func (s *Store) Write(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	return s.write(ctx, accountID, f)
}

// settings are those of a transaction that is sent at once: the same that transactAs
// makes, in the one statement that the protocol takes there.
const settings = `
SELECT set_config('outlay.account_id', $1, true), set_config('statement_timeout', $2, true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true)`

const guardedSettings = settings + `, set_config('role', '` + queryRole + `', true), set_config('search_path', 'tenant, public', true)`

// atOnce is read for statements that are known beforehand: the transaction, from its
// begin to its commit, is one round trip for each of the rounds. A round gives each of
// its statements a function that reads the rows; the next one is asked after that.
func (s *Store) atOnce(ctx context.Context, accountID schema.ID, rounds ...func(*pgx.Batch)) error {
	guarded, err := s.Guarded(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.timeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	for i, queue := range rounds {
		var batch pgx.Batch
		if i == 0 {
			s.queueBegin(&batch, accountID, guarded)
		}
		queue(&batch)
		if i == len(rounds)-1 {
			batch.Queue("COMMIT")
		}
		if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
			if conn.Conn().PgConn().TxStatus() != idle {
				_, _ = conn.Exec(ctx, "ROLLBACK")
			}
			return timeoutOr(err)
		}
	}
	return nil
}

func (s *Store) queueBegin(b *pgx.Batch, accountID schema.ID, guarded bool) {
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	statement := settings
	if guarded {
		statement = guardedSettings
	}
	b.Queue(statement, hex.EncodeToString(accountID[:]), strconv.FormatInt(s.timeout.Milliseconds(), 10))
}

// planAnew is queued before a statement about a day or two: a plan made for its times
// has only their chunks, where the one that is kept has to leave out all others each
// time it starts.
const planAnew = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`

// fewChunks is the longest time for which planAnew pays.
const fewChunks = 48 * time.Hour

// idle is the status of a connection outside of a transaction.
const idle = 'I'

// transactAs takes the role for one account, where there is one. Begin, timeout,
// role and account are one round trip; nothing of it comes from a client.
func (s *Store) transactAs(ctx context.Context, begin string, accountID schema.ID, f func(context.Context, pgx.Tx) error) error {
	guarded, err := s.Guarded(ctx)
	if err != nil {
		return err
	}
	begin += "SET LOCAL outlay.account_id = '" + hex.EncodeToString(accountID[:]) + "';"
	if guarded {
		begin += "SET LOCAL ROLE " + queryRole + "; SET LOCAL search_path = tenant, public;"
	}
	return s.transact(ctx, begin, f)
}

// transact runs f between begin and a commit. A client that goes away does not
// cancel a statement, which would close the connection; the statement timeout ends
// it. Statements are planned once: planning over months of chunks takes longer than
// running, and so would compiling.
func (s *Store) transact(ctx context.Context, begin string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.timeout)
	defer cancel()
	begin += "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off; SET LOCAL statement_timeout = " + strconv.FormatInt(s.timeout.Milliseconds(), 10)
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

// queryCanceled is the SQLSTATE of a statement that the timeout ended.
const queryCanceled = "57014"

func timeoutOr(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == queryCanceled || errors.Is(err, context.DeadlineExceeded) {
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
