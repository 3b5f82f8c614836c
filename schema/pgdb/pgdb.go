// Package pgdb is what every store writes around pgx: run a statement, collect its rows by the names of their columns, and wrap the
// error with the action. Statements and their meaning stay with the stores.
package pgdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what a store needs of pgx: a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Rows returns the rows of a query, each in a struct whose fields are named like the columns. action begins the error.
func Rows[T any](ctx context.Context, db DB, action, sql string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return found, nil
}

// Row is Rows for a query that finds at most one. It returns notFound, unwrapped, when there is none.
func Row[T any](ctx context.Context, db DB, action string, notFound error, sql string, args ...any) (T, error) {
	rows, _ := db.Query(ctx, sql, args...)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, notFound
	case err != nil:
		return found, fmt.Errorf("%s: %w", action, err)
	}
	return found, nil
}

// Value returns the one column of the one row that a query always finds.
func Value[T any](ctx context.Context, db DB, action, sql string, args ...any) (value T, err error) {
	if err := db.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		return value, fmt.Errorf("%s: %w", action, err)
	}
	return value, nil
}

// Exec runs a statement. action begins the error.
func Exec(ctx context.Context, db DB, action, sql string, args ...any) error {
	if _, err := db.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// Change is Exec for a statement that has to change a row. It returns notFound, unwrapped, when it changes none.
func Change(ctx context.Context, db DB, action string, notFound error, sql string, args ...any) error {
	tag, err := db.Exec(ctx, sql, args...)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", action, err)
	case tag.RowsAffected() == 0:
		return notFound
	}
	return nil
}
