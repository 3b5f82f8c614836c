package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// keyCommand groups the commands about the API keys of an account.
type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Create an API key; it is shown once."`
	List   keyListCommand   `cmd:"" help:"List the API keys of an account."`
	Rotate keyRotateCommand `cmd:"" help:"Make a new API key in place of one, which may go on working for a while."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke an API key; it stops working within a second."`
}

// keyCreateCommand adds a key. Its scopes and agents are checked before anything is written.
type keyCreateCommand struct {
	accountFlags
	Name    string        `default:"key" help:"Name of the key."`
	Expires time.Duration `help:"Life of the key, such as 720h; without it the key does not expire."`
	Scope   []string      `default:"track" placeholder:"SCOPE,…" help:"What the key is for: track, read or both."`
	Agents  []string      `placeholder:"PATTERN,…" help:"Agents that the key may track, * for any text, such as support-*; all without it."`
}

// Run creates the key and prints it. The database keeps its hash only, so it cannot be printed again.
func (c *keyCreateCommand) Run(ctx context.Context) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	wanted := account.NewKey{Name: c.Name, Grant: grant}
	detail := map[string]any{"name": c.Name, "scopes": grant.Scopes, "agents": grant.Agents}
	if c.Expires > 0 {
		at := time.Now().Add(c.Expires).UTC()
		wanted.ExpiresAt, detail["expires_at"] = &at, at
	}
	return c.printKey(ctx, "api_key.create", "", detail, func(a accountChange) (account.Key, string, error) {
		return a.CreateKey(ctx, a.id, wanted)
	})
}

// printKey makes a key and prints it once the transaction is committed: a key that was printed works. target is the id in the audit
// log; empty for that of the new key.
func (f accountFlags) printKey(
	ctx context.Context, action, target string, detail map[string]any, makeKey func(accountChange) (account.Key, string, error),
) error {
	// Both are set inside the transaction and used after it.
	var key account.Key
	var secret string
	err := f.change(ctx, action, detail, func(a accountChange) (_ string, err error) {
		key, secret, err = makeKey(a)
		return cmp.Or(target, key.ID.Text(schema.KeyPrefix)), err
	})
	if err == nil {
		fmt.Printf("id       %s\napi key  %s\n", key.ID.Text(schema.KeyPrefix), secret)
	}
	return err
}

// grant returns what the key may do.
func (c *keyCreateCommand) grant() (account.Grant, error) {
	// The same rules hold for keys that the API makes.
	g := account.Grant{Agents: c.Agents}
	for _, scope := range c.Scope {
		g.Scopes = append(g.Scopes, account.Scope(scope))
	}
	g.Normalise()
	var faults schema.Faults
	if g.Check(&faults); len(faults) > 0 {
		return g, errors.New("--" + map[string]string{"scopes": "scope", "agents": "agents"}[faults[0].Field] + " " + faults[0].Message)
	}
	return g, nil
}

// grantText shows scopes and agents in a table.
func grantText(k *account.Key) (scopes, agents string) {
	// A key without patterns may track every agent.
	names := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		names[i] = string(s)
	}
	agents = "all"
	if k.Agents != nil {
		agents = strings.Join(k.Agents, ",")
	}
	return strings.Join(names, ","), agents
}

// keyListCommand lists keys by their last characters; the rest of a key is not known any more.
type keyListCommand struct{ accountFlags }

// Run prints the keys.
func (c *keyListCommand) Run(ctx context.Context) error {
	return c.with(ctx, func(pool *pgxpool.Pool, id schema.ID) error {
		keys, err := account.NewStore(pool, time.Now).Keys(ctx, id, account.Page{})
		if err != nil {
			return err
		}
		return table("ID\tNAME\tENDS WITH\tCREATED\tEXPIRES\tREVOKED\tSCOPES\tAGENTS", len(keys), func(i int) string {
			k := keys[i]
			scopes, agents := grantText(&k)
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", k.ID.Text(schema.KeyPrefix), k.Name, k.Hint,
				k.CreatedAt.Format(time.RFC3339), moment(k.ExpiresAt), moment(k.RevokedAt), scopes, agents)
		})
	})
}

// moment writes a time, and - for none.
func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// keyFlags name a key of an account.
type keyFlags struct {
	accountFlags
	ID string `arg:"" help:"Id of the key, key_…"`
}

// keyID returns the id in its binary form.
func (f keyFlags) keyID() (schema.ID, error) {
	id, err := schema.ParseID(schema.KeyPrefix, f.ID)
	if err != nil {
		return id, errors.New("this is not the id of a key; see outlay key list")
	}
	return id, nil
}

// keyRotateCommand exchanges a key. With a grace period both keys work for a while, so that agents can be changed one by one.
type keyRotateCommand struct {
	keyFlags
	Grace time.Duration `help:"How long the old key goes on working, such as 24h; without it it stops within a second."`
}

// Run makes a new key in place of one, and prints it.
func (c *keyRotateCommand) Run(ctx context.Context) error {
	keyID, err := c.keyID()
	if err != nil {
		return err
	}
	if c.Grace < 0 {
		return errors.New("--grace must not be negative")
	}
	detail := map[string]any{"grace_seconds": int(c.Grace.Seconds())}
	return c.printKey(ctx, "api_key.rotate", c.ID, detail, func(a accountChange) (account.Key, string, error) {
		key, secret, err := a.RotateKey(ctx, a.id, keyID, c.Grace)
		if errors.Is(err, account.ErrNotFound) {
			err = errors.New("the account has no such key that still works; see outlay key list")
		}
		return key, secret, err
	})
}

// keyRevokeCommand ends a key for good.
type keyRevokeCommand struct{ keyFlags }

// Run revokes the key. Running ingest replicas refuse it within a second.
func (c *keyRevokeCommand) Run(ctx context.Context) error {
	keyID, err := c.keyID()
	if err != nil {
		return err
	}
	return c.change(ctx, "api_key.revoke", map[string]any{}, func(a accountChange) (string, error) {
		err := a.RevokeKey(ctx, a.id, keyID)
		if errors.Is(err, account.ErrNotFound) {
			return "", errors.New("the account has no such key; see outlay key list")
		}
		return c.ID, err
	})
}
