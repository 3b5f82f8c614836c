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

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// userFlag names the user that a command is about.
type userFlag struct {
	accountFlag
	User string `arg:"" name:"user" help:"Id or e-mail address of the user; see outlay user list."`
}

// find returns the user.
func (f userFlag) find(ctx context.Context, store *account.Store, accountID schema.ID) (account.User, error) {
	users, err := store.Users(ctx, accountID, account.Page{})
	if err != nil {
		return account.User{}, err
	}
	for _, u := range users {
		if u.ID.Text(schema.UserPrefix) == f.User || strings.EqualFold(u.Email, f.User) {
			return u, nil
		}
	}
	return account.User{}, errors.New("the account has no such user; see outlay user list --account " + f.Account)
}

// change does something to the user, ends all of the user's sign-ins, and notes it in the account's audit log.
func (f userFlag) change(
	ctx context.Context, db databaseFlags, detail map[string]any, do func(context.Context, *account.Store, *account.User) error,
) error {
	accountID, err := f.id()
	if err != nil {
		return err
	}
	return db.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		return audited(ctx, pool, accountID, "user.change", detail, func(tx pgx.Tx, store *account.Store) (string, error) {
			user, err := f.find(ctx, store, accountID)
			if err != nil {
				return "", err
			}
			if err := do(ctx, store, &user); err != nil {
				return "", err
			}
			return user.ID.Text(schema.UserPrefix), auth.NewSignIns(0, time.Now).EndAll(ctx, tx, accountID, user.ID)
		})
	})
}

type userDisableCommand struct {
	databaseFlags
	userFlag
}

// Run disables the user. It may be the last owner: whoever runs the service can enable or make another one.
func (c *userDisableCommand) Run(ctx context.Context) error {
	return c.change(ctx, c.databaseFlags, map[string]any{"disabled": true}, func(ctx context.Context, store *account.Store, u *account.User) error {
		return store.Disable(ctx, u.AccountID, u.ID)
	})
}

type userPasswordCommand struct {
	databaseFlags
	userFlag
	Password string `help:"New password; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
}

// Run sets the password and prints it.
func (c *userPasswordCommand) Run(ctx context.Context) error {
	if c.Password == "" {
		c.Password = rand.Text()
	}
	if message := account.PasswordFault(c.Password); message != "" {
		return errors.New("--password " + message)
	}
	var email string
	err := c.change(ctx, c.databaseFlags, map[string]any{"password": "changed"}, func(ctx context.Context, store *account.Store, u *account.User) error {
		if u.Outside() {
			return errors.New("an identity provider signs this user in: the password is changed there")
		}
		hash, err := hashFor(ctx, store, u.Email, c.Password)
		if err != nil {
			return err
		}
		email = u.Email
		return store.SetPassword(ctx, u.AccountID, u.ID, hash)
	})
	if err != nil {
		return err
	}
	fmt.Printf("email     %s\npassword  %s\n", email, c.Password)
	return nil
}

type keyRotateCommand struct {
	databaseFlags
	accountFlag
	ID    string        `arg:"" help:"Id of the key, key_…"`
	Grace time.Duration `help:"How long the old key goes on working, such as 24h; without it it stops within a second."`
}

// Run makes a new key in place of one, and prints it.
func (c *keyRotateCommand) Run(ctx context.Context) error {
	accountID, err := c.id()
	if err != nil {
		return err
	}
	keyID, err := schema.ParseID(schema.KeyPrefix, c.ID)
	if err != nil {
		return errNoKey
	}
	if c.Grace < 0 {
		return errors.New("--grace must not be negative")
	}
	return c.withStore(ctx, func(_ *account.Store, pool *pgxpool.Pool) error {
		var key account.Key
		var secret string
		detail := map[string]any{"grace_seconds": int(c.Grace.Seconds())}
		err := audited(ctx, pool, accountID, "api_key.rotate", detail, func(_ pgx.Tx, store *account.Store) (string, error) {
			var err error
			key, secret, err = store.RotateKey(ctx, accountID, keyID, c.Grace)
			if errors.Is(err, account.ErrNotFound) {
				return "", errors.New("the account has no such key that still works; see outlay key list")
			}
			return c.ID, err
		})
		if err != nil {
			return err
		}
		fmt.Printf("id       %s\napi key  %s\n", key.ID.Text(schema.KeyPrefix), secret)
		return nil
	})
}
