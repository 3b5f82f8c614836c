// Package advisory is the registry of the advisory locks that Outlay takes in PostgreSQL. An advisory lock is a number that means
// only what its users agree on, so all numbers stand here and a test holds them apart: two pieces of work that take the same number
// by mistake wait for each other without need. Migrations name the keys as {{ .Locks.FoldSessions }}.
package advisory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Key is a lock of which a database has one.
type Key int64

// The locks of a database. A number may never change while two versions of the program run beside each other.
const (
	// Migrate is held by whoever migrates the schema.
	Migrate Key = 0x6f75746c61790001
	// RefreshRollups is held by the processor that refreshes the continuous aggregates.
	RefreshRollups Key = 0x6f75746c61790002
	// ExpireAccounts is held by the processor that deletes what is past the retention of its account.
	ExpireAccounts Key = 0x6f75746c61790003
	// FoldSessions is held by whoever folds session_parts into sessions, or needs them to stand still: an erasure, a repricing.
	FoldSessions Key = 0x6f75746c61790005
	// TestTemplate is held by the test that makes the template of all tests' databases.
	TestTemplate Key = 0x6f75746c61790006
)

// Keys returns the locks of a database by name, as migrations name them.
func Keys() map[string]Key {
	return map[string]Key{
		"Migrate": Migrate, "RefreshRollups": RefreshRollups, "ExpireAccounts": ExpireAccounts,
		"FoldSessions": FoldSessions, "TestTemplate": TestTemplate,
	}
}

// Class is a lock of which each account has one. PostgreSQL keeps these apart from every Key.
type Class int32

// The locks of an account. Each serialises a count against a limit and the insert that follows it.
const (
	AlertRules Class = iota + 0x6f75746c
	Reports
	Reprices
)

const lockAccount = `SELECT pg_advisory_xact_lock($1::integer, hashtext($2::uuid::text))`

// LockAccount waits for the lock of an account and holds it until the transaction ends. Two accounts may share a lock by the chance
// of a hash; they then wait for each other and nothing else.
func LockAccount(ctx context.Context, tx pgdb.DB, class Class, account schema.ID) error {
	return pgdb.Exec(ctx, tx, "lock the account", lockAccount, class, account)
}

const (
	tryLock = `SELECT pg_try_advisory_lock($1)`
	unlock  = `SELECT pg_advisory_unlock($1)`
)

// unlockTimeout bounds the wait for a server that has gone away.
const unlockTimeout = 5 * time.Second

// TryLock takes a lock for the session of conn if it is free. It returns what releases the lock, even when ctx is done by then, or
// nil when somebody else holds it. An error of releasing needs no answer: it means that the connection is lost, and the lock with it.
func TryLock(ctx context.Context, conn *pgx.Conn, key Key) (release func(), err error) {
	var locked bool
	if err := conn.QueryRow(ctx, tryLock, key).Scan(&locked); err != nil {
		return nil, fmt.Errorf("try advisory lock: %w", err)
	}
	if !locked {
		return nil, nil //nolint:nilnil // No error, and no lock.
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, unlock, key)
	}, nil
}
