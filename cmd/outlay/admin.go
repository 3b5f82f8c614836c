package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// adminPool is enough for one command after the other.
var adminPool = poolSettings{name: "admin", size: 2, timeouts: true}

// withPool runs do with connections to the database, which are closed when it returns.
func (f databaseFlags) withPool(ctx context.Context, do func(*pgxpool.Pool) error) error {
	pool, err := f.pool(ctx, adminPool)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(pool)
}

// accountFlags name the database, and the account that a command is about.
type accountFlags struct {
	databaseFlags
	Account string `required:"" placeholder:"ACC_ID" help:"Id of the account; see outlay account list."`
}

// with runs do with connections to the database and the account's id. That the account exists is left to do.
func (f accountFlags) with(ctx context.Context, do func(*pgxpool.Pool, schema.ID) error) error {
	id, err := schema.ParseID(schema.AccountPrefix, f.Account)
	if err != nil {
		return errors.New("--account is not an account id; it looks like acc_01jd…, see outlay account list")
	}
	return f.withPool(ctx, func(pool *pgxpool.Pool) error { return do(pool, id) })
}

// accountChange is a change of an account in a transaction.
type accountChange struct {
	*account.Store // of the transaction
	tx             pgx.Tx
	id             schema.ID
}

// change runs do in a transaction together with a line in the account's audit log. The line names nobody, because the change was
// made at the command line. do returns the id of what it changed.
func (f accountFlags) change(ctx context.Context, action string, detail map[string]any, do func(accountChange) (target string, err error)) error {
	return f.with(ctx, func(pool *pgxpool.Pool, id schema.ID) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			target, err := do(accountChange{account.NewStore(tx, time.Now), tx, id})
			if err != nil {
				return err
			}
			return noteAct(ctx, tx, id, action, target, detail)
		})
	})
}

// noteAct adds a line to the account's audit log.
func noteAct(ctx context.Context, tx pgx.Tx, id schema.ID, action, target string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	// PostgreSQL keeps microseconds, and the id begins with the same time.
	now := time.Now().UTC().Truncate(time.Microsecond)
	act := usage.Act{AuditID: schema.NewID(now), At: usage.Time{Time: now}, Action: action, Target: target, Detail: text}
	return act.Note(ctx, tx, id)
}

// table prints rows under a header.
func table(header string, n int, row func(i int) string) error {
	// Columns are two spaces apart, so the output can be cut by scripts.
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for i := range n {
		fmt.Fprintln(w, row(i))
	}
	return w.Flush()
}
