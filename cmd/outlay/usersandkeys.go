package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// accountFlag names the account that a command is about.
type accountFlag struct {
	Account string `required:"" placeholder:"ACC_ID" help:"Id of the account; see outlay account list."`
}

func (f accountFlag) id() (schema.ID, error) {
	id, err := schema.ParseID(schema.AccountPrefix, f.Account)
	if err != nil {
		return id, errors.New("--account is not an account id; it looks like acc_01jd…, see outlay account list")
	}
	return id, nil
}

// withAccount runs do with the accounts of the database and the id of one.
func withAccount(ctx context.Context, db databaseFlags, f accountFlag, do func(*account.Store, schema.ID) error) error {
	id, err := f.id()
	if err != nil {
		return err
	}
	return db.withStore(ctx, func(store *account.Store, _ *pgxpool.Pool) error { return do(store, id) })
}

type userCommand struct {
	Create userCreateCommand `cmd:"" help:"Create a user who can sign in."`
	List   userListCommand   `cmd:"" help:"List the users of an account."`

	Disable  userDisableCommand  `cmd:"" help:"Stop a user from signing in, and end all sign-ins of the user."`
	Password userPasswordCommand `cmd:"" help:"Set a user's password, and end all sign-ins of the user."`
}

type userCreateCommand struct {
	databaseFlags
	accountFlag
	Email    string `required:"" placeholder:"ADDRESS" help:"E-mail address to sign in with."`
	Password string `help:"Password; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
	Role     string `default:"viewer" enum:"viewer,admin,owner" help:"Role: viewer, admin or owner."`
}

// Run creates the user and prints what signs in.
func (c *userCreateCommand) Run(ctx context.Context) error {
	if c.Password == "" {
		c.Password = rand.Text()
	}
	if fault := account.EmailFault(c.Email); fault != "" {
		return errors.New("--email " + fault)
	}
	if fault := account.PasswordFault(c.Password); fault != "" {
		return errors.New("--password " + fault)
	}
	id, err := c.id()
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(store *account.Store, pool *pgxpool.Pool) error {
		hash, err := hashFor(ctx, store, c.Email, c.Password)
		if err != nil {
			return err
		}
		var user account.User
		detail := map[string]any{"email": c.Email, "role": c.Role}
		err = audited(ctx, pool, id, "user.create", detail, func(_ pgx.Tx, store *account.Store) (string, error) {
			var err error
			user, err = store.CreateUser(ctx, id, c.Email, hash, account.Role(c.Role))
			return user.ID.Text(schema.UserPrefix), err
		})
		if err != nil {
			return err
		}
		fmt.Printf("user      %s\nemail     %s\npassword  %s\n", user.ID.Text(schema.UserPrefix), c.Email, c.Password)
		return nil
	})
}

type userListCommand struct {
	databaseFlags
	accountFlag
}

// Run prints the users.
func (c *userListCommand) Run(ctx context.Context) error {
	return withAccount(ctx, c.databaseFlags, c.accountFlag, func(store *account.Store, id schema.ID) error {
		users, err := store.Users(ctx, id, account.Page{})
		if err != nil {
			return err
		}
		return table("ID\tEMAIL\tROLE\tCREATED\tISSUER", len(users), func(i int) string {
			u := users[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", u.ID.Text(schema.UserPrefix), u.Email, u.Role, u.CreatedAt.Format(time.RFC3339), u.Issuer)
		})
	})
}

type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Create an API key; it is shown once."`
	List   keyListCommand   `cmd:"" help:"List the API keys of an account."`
	Rotate keyRotateCommand `cmd:"" help:"Make a new API key in place of one, which may go on working for a while."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke an API key; it stops working within a second."`
}

type keyCreateCommand struct {
	databaseFlags
	accountFlag
	Name    string        `default:"key" help:"Name of the key."`
	Expires time.Duration `help:"Life of the key, such as 720h; without it the key does not expire."`
	Scope   []string      `default:"track" placeholder:"SCOPE,…" help:"What the key is for: track, read or both."`
	Agents  []string      `placeholder:"PATTERN,…" help:"Agents that the key may track, * for any text, such as support-*; all without it."`
}

// Run creates the key and prints it.
func (c *keyCreateCommand) Run(ctx context.Context) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	id, err := c.id()
	if err != nil {
		return err
	}
	wanted := account.NewKey{Name: c.Name, Grant: grant}
	detail := map[string]any{"name": c.Name, "scopes": grant.Scopes, "agents": grant.Agents}
	if c.Expires > 0 {
		at := time.Now().Add(c.Expires).UTC()
		wanted.ExpiresAt, detail["expires_at"] = &at, at
	}
	return c.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		var key account.Key
		var secret string
		err := audited(ctx, pool, id, "api_key.create", detail, func(_ pgx.Tx, store *account.Store) (string, error) {
			var err error
			key, secret, err = store.CreateKey(ctx, id, wanted)
			return key.ID.Text(schema.KeyPrefix), err
		})
		if err != nil {
			return err
		}
		fmt.Printf("id       %s\napi key  %s\n", key.ID.Text(schema.KeyPrefix), secret)
		return nil
	})
}

// grant returns what the key may do.
func (c *keyCreateCommand) grant() (account.Grant, error) {
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

type keyListCommand struct {
	databaseFlags
	accountFlag
}

// Run prints the keys.
func (c *keyListCommand) Run(ctx context.Context) error {
	return withAccount(ctx, c.databaseFlags, c.accountFlag, func(store *account.Store, id schema.ID) error {
		keys, err := store.Keys(ctx, id, account.Page{})
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

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// errNoKey is for what is no id of a key.
var errNoKey = errors.New("this is not the id of a key; see outlay key list")

type keyRevokeCommand struct {
	databaseFlags
	accountFlag
	ID string `arg:"" help:"Id of the key, key_…"`
}

// Run revokes the key.
func (c *keyRevokeCommand) Run(ctx context.Context) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	keyID, err := schema.ParseID(schema.KeyPrefix, c.ID)
	if err != nil {
		return errNoKey
	}
	return c.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		return audited(ctx, pool, id, "api_key.revoke", map[string]any{}, func(_ pgx.Tx, store *account.Store) (string, error) {
			err := store.RevokeKey(ctx, id, keyID)
			if errors.Is(err, account.ErrNotFound) {
				return "", errors.New("the account has no such key; see outlay key list")
			}
			return c.ID, err
		})
	})
}
