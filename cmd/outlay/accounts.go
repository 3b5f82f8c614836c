package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// accountCommand groups the commands about accounts. They work on the database directly, so no tier has to run.
type accountCommand struct {
	Create accountCreateCommand `cmd:"" help:"Create an account with its first user and API key."`
	List   accountListCommand   `cmd:"" help:"List accounts."`
	Plan   accountPlanCommand   `cmd:"" help:"Change the plan of an account; it is obeyed within a second."`
}

// accountCreateCommand makes an account that can be used at once: with an owner who signs in and a key that tracks.
type accountCreateCommand struct {
	databaseFlags
	Name     string `required:"" placeholder:"NAME" help:"Name of the account."`
	Email    string `required:"" placeholder:"ADDRESS" help:"E-mail address of its owner, who can sign in."`
	Password string `help:"Password of the owner; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
	Plan     string `default:"enterprise" enum:"free,pro,enterprise" help:"Plan: free, pro or enterprise."`
}

// Run creates the account and prints what signs in. Password and key cannot be read again.
func (c *accountCreateCommand) Run(ctx context.Context) error {
	return c.withPool(ctx, func(pool *pgxpool.Pool) error {
		made, err := createAccount(ctx, pool, newAccount{name: c.Name, email: c.Email, password: c.Password, plan: account.Plan(c.Plan)})
		if err != nil {
			return err
		}
		fmt.Printf("account   %s\nemail     %s\npassword  %s\napi key   %s\n",
			made.id.Text(schema.AccountPrefix), made.Email, made.Password, made.APIKey)
		return nil
	})
}

// accountListCommand lists all accounts, whoever they belong to.
type accountListCommand struct{ databaseFlags }

// Run prints all accounts.
func (c *accountListCommand) Run(ctx context.Context) error {
	return c.withPool(ctx, func(pool *pgxpool.Pool) error {
		accounts, err := account.NewStore(pool, time.Now).Accounts(ctx)
		if err != nil {
			return err
		}
		return table("ID\tNAME\tPLAN\tCREATED", len(accounts), func(i int) string {
			a := accounts[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s", a.ID.Text(schema.AccountPrefix), a.Name, a.Plan, a.CreatedAt.Format(time.RFC3339))
		})
	})
}

// accountPlanCommand sets the plan, which decides the rate limits of an account.
type accountPlanCommand struct {
	databaseFlags
	ID   string `arg:"" help:"Id of the account; see outlay account list."`
	Plan string `required:"" enum:"free,pro,enterprise" help:"Plan: free, pro or enterprise."`
}

// Run changes the plan. Ingest and query replicas notice it within a second.
func (c *accountPlanCommand) Run(ctx context.Context) error {
	flags, detail := accountFlags{c.databaseFlags, c.ID}, map[string]any{"plan": c.Plan}
	return flags.change(ctx, "account.set_plan", detail, func(a accountChange) (string, error) {
		_, err := a.SetPlan(ctx, a.id, account.Plan(c.Plan))
		if errors.Is(err, account.ErrNotFound) {
			return "", errors.New("there is no such account; see outlay account list")
		}
		return c.ID, err
	})
}
