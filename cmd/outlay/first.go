package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/account"
)

// credentialsFile holds what the first start has printed, in the data directory.
const credentialsFile = "credentials.json"

// firstAccount makes an account, a user and an API key when the database has no
// account yet, and keeps them in credentials.json. Otherwise it returns nil.
func (c *upCommand) firstAccount(ctx context.Context, pool *pgxpool.Pool, base string) (*credentials, error) {
	// A database that has an account is not at its first start, whatever the data directory holds.
	accounts, err := account.NewStore(pool, time.Now).Accounts(ctx)
	if err != nil || len(accounts) > 0 {
		return nil, err
	}
	// The address need not exist: it only signs in, and no mail is sent to it.
	made, err := createAccount(ctx, pool, newAccount{
		name: "My company", email: "owner@outlay.local", plan: account.Enterprise,
	})
	if err != nil {
		return nil, fmt.Errorf("make the first account: %w", err)
	}
	made.BaseURL = base
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write credentials: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.DataDir, credentialsFile), append(text, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("write credentials: %w", err)
	}
	return &made, nil
}

// announce prints the addresses of the services once they are ready.
func (c *upCommand) announce(ctx context.Context, p *process, first *credentials) {
	for ctx.Err() == nil && !p.ready(ctx) {
		time.Sleep(20 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return
	}
	base := "http://" + reachable(p.public.Addr())
	// It goes to standard output in one piece, so that lines of the log do not stand in between.
	var b strings.Builder
	fmt.Fprintf(&b, "\nOutlay is ready.\n\n  API and dashboard  %s\n  operations         http://%s/metrics\n", base, reachable(p.ops.Addr()))
	// A later start shows no secret again: the file has it.
	key := "$(sed -n 's/.*\"api_key\": \"\\(.*\\)\".*/\\1/p' " + filepath.Join(c.DataDir, credentialsFile) + ")"
	if first != nil {
		key = first.APIKey
		fmt.Fprintf(&b, "\n  email              %s\n  password           %s\n  API key            %s\n", first.Email, first.Password, first.APIKey)
		fmt.Fprintf(&b, "\n  These are shown once and kept in %s.\n", filepath.Join(c.DataDir, credentialsFile))
	}
	fmt.Fprintf(&b, "\nTrack a first event:\n\n  curl %s/v1/track -H \"Authorization: Bearer %s\" -H 'Content-Type: application/json' \\\n"+
		"    -d '{\"agent\":\"my-agent\",\"model\":\"gpt-4o\",\"input_tokens\":1200,\"output_tokens\":300}'\n\n", base, key)
	fmt.Print(b.String())
}

// ready reports whether every tier is.
func (p *process) ready(ctx context.Context) bool {
	for _, c := range p.checks() {
		if c.ready(ctx) != nil {
			return false
		}
	}
	return true
}
