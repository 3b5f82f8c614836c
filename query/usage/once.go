package usage

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema"
)

// Once asks for what one account may see, each statement in a transaction of its own
// that is one round trip, from its begin to its commit. Other packages' stores take it
// in the place of a transaction for what they read with a single statement.
type Once struct {
	store     *Store
	accountID schema.ID
}

// Once returns what asks single statements for an account.
func (s *Store) Once(accountID schema.ID) Once { return Once{s, accountID} }

// Query runs a statement that reads. The rows hold a connection until they are closed.
func (o Once) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := o.query(ctx, sql, args)
	if err != nil {
		err = timeoutOr(err)
		return failedRows{err: err}, err
	}
	return rows, nil
}

func (o Once) query(ctx context.Context, sql string, args []any) (*onceRows, error) {
	guarded, err := o.store.Guarded(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*o.store.timeout)
	conn, err := o.store.pool.Acquire(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	var batch pgx.Batch
	o.store.queueBegin(&batch, o.accountID, guarded)
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, &batch)
	end := sync.OnceFunc(func() {
		_ = results.Close() // The rows have returned its error.
		if conn.Conn().PgConn().TxStatus() != idle {
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		conn.Release()
		cancel()
	})
	for range batch.Len() - 2 {
		if _, err := results.Exec(); err != nil {
			end()
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		end()
		return nil, err
	}
	return &onceRows{rows, end}, nil
}

// QueryRow is Query of a single row.
func (o Once) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := o.Query(ctx, sql, args...)
	return onceRow{rows, err}
}

// Exec runs a statement for its effect, which in a transaction that reads is to fail.
func (o Once) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := o.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// onceRows end their transaction when they are closed.
type onceRows struct {
	pgx.Rows
	end func()
}

// Close ends the transaction.
func (r *onceRows) Close() {
	r.Rows.Close()
	r.end()
}

// Err returns why there are no more rows, or nil.
func (r *onceRows) Err() error { return timeoutOr(r.Rows.Err()) }

// failedRows are none. They are there for callers who ask for the error behind them.
type failedRows struct {
	pgx.Rows
	err error
}

// Next returns false.
func (failedRows) Next() bool { return false }

// Err returns why there are none.
func (r failedRows) Err() error { return r.err }

// Close does nothing.
func (failedRows) Close() {}

type onceRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the row. It returns pgx.ErrNoRows when there is none.
func (r onceRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
