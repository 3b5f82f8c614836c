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

// withStore runs f with the accounts of the database.
func (f databaseFlags) withStore(ctx context.Context, do func(*account.Store, *pgxpool.Pool) error) error {
	pool, err := f.pool(ctx, adminPool)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(account.NewStore(pool, time.Now), pool)
}

type accountCommand struct {
	Create accountCreateCommand `cmd:"" help:"Create an account with its first user and API key."`
	List   accountListCommand   `cmd:"" help:"List accounts."`
	Plan   accountPlanCommand   `cmd:"" help:"Change the plan of an account; it is obeyed within a second."`
}

type accountCreateCommand struct {
	databaseFlags
	Name     string `required:"" placeholder:"NAME" help:"Name of the account."`
	Email    string `required:"" placeholder:"ADDRESS" help:"E-mail address of its owner, who can sign in."`
	Password string `help:"Password of the owner; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
	Plan     string `default:"enterprise" enum:"free,pro,enterprise" help:"Plan: free, pro or enterprise."`
}

// Run creates the account and prints what signs in.
func (c *accountCreateCommand) Run(ctx context.Context) error {
	return c.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		made, err := createAccount(ctx, pool, newAccount{name: c.Name, email: c.Email, password: c.Password, plan: account.Plan(c.Plan)})
		if err != nil {
			return err
		}
		fmt.Printf("account   %s\nemail     %s\npassword  %s\napi key   %s\n", made.id.Text(schema.AccountPrefix), made.Email, made.Password, made.APIKey)
		return nil
	})
}

type accountListCommand struct{ databaseFlags }

// Run prints all accounts.
func (c *accountListCommand) Run(ctx context.Context) error {
	return c.withStore(ctx, func(store *account.Store, _ *pgxpool.Pool) error {
		accounts, err := store.Accounts(ctx)
		if err != nil {
			return err
		}
		return table("ID\tNAME\tPLAN\tCREATED", len(accounts), func(i int) string {
			a := accounts[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s", a.ID.Text(schema.AccountPrefix), a.Name, a.Plan, a.CreatedAt.Format(time.RFC3339))
		})
	})
}

type accountPlanCommand struct {
	databaseFlags
	ID   string `arg:"" help:"Id of the account; see outlay account list."`
	Plan string `required:"" enum:"free,pro,enterprise" help:"Plan: free, pro or enterprise."`
}

// Run changes the plan and notes it in the account's audit log.
func (c *accountPlanCommand) Run(ctx context.Context) error {
	id, err := accountFlag{c.ID}.id()
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		return audited(ctx, pool, id, "account.set_plan", map[string]any{"plan": c.Plan}, func(_ pgx.Tx, store *account.Store) (string, error) {
			_, err := store.SetPlan(ctx, id, account.Plan(c.Plan))
			if errors.Is(err, account.ErrNotFound) {
				return "", errors.New("there is no such account; see outlay account list")
			}
			return c.ID, err
		})
	})
}

// audited runs do in a transaction together with a line in the account's audit log, which
// names nobody: it was done at the command line. do returns what it was done to.
func audited(ctx context.Context, pool *pgxpool.Pool, id schema.ID, action string, detail map[string]any, do func(pgx.Tx, *account.Store) (target string, err error)) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		target, err := do(tx, account.NewStore(tx, time.Now))
		if err != nil {
			return err
		}
		return noteAct(ctx, tx, id, action, target, detail)
	})
}

// noteAct adds a line to the account's audit log.
func noteAct(ctx context.Context, tx pgx.Tx, id schema.ID, action, target string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	act := usage.Act{AuditID: schema.NewID(now), At: usage.Time{Time: now}, Action: action, Target: target, Detail: text}
	return act.Note(ctx, tx, id)
}

// table prints rows under a header.
func table(header string, n int, row func(i int) string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for i := range n {
		fmt.Fprintln(w, row(i))
	}
	return w.Flush()
}
