package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// userCommand groups the commands about the users of an account.
type userCommand struct {
	Create userCreateCommand `cmd:"" help:"Create a user who can sign in."`
	List   userListCommand   `cmd:"" help:"List the users of an account."`

	Disable  userDisableCommand  `cmd:"" help:"Stop a user from signing in, and end all sign-ins of the user."`
	Password userPasswordCommand `cmd:"" help:"Set a user's password, and end all sign-ins of the user."`
}

// userCreateCommand adds a user. The default role is the one that can change nothing.
type userCreateCommand struct {
	accountFlags
	Email    string `required:"" placeholder:"ADDRESS" help:"E-mail address to sign in with."`
	Password string `help:"Password; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
	Role     string `default:"viewer" enum:"viewer,admin,owner" help:"Role: viewer, admin or owner."`
}

// Run creates the user and prints what signs in.
func (c *userCreateCommand) Run(ctx context.Context) error {
	if c.Password == "" {
		c.Password = rand.Text()
	}
	if err := checkSignIn(c.Email, c.Password); err != nil {
		return err
	}
	var user account.User
	err := c.change(ctx, "user.create", map[string]any{"email": c.Email, "role": c.Role}, func(a accountChange) (string, error) {
		hash, err := hashFor(ctx, a.Store, c.Email, c.Password)
		if err != nil {
			return "", err
		}
		user, err = a.CreateUser(ctx, a.id, c.Email, hash, account.Role(c.Role))
		return user.ID.Text(schema.UserPrefix), err
	})
	if err != nil {
		return err
	}
	fmt.Printf("user      %s\nemail     %s\npassword  %s\n", user.ID.Text(schema.UserPrefix), c.Email, c.Password)
	return nil
}

// userListCommand lists the users of one account, those of an identity provider with their issuer.
type userListCommand struct{ accountFlags }

// Run prints the users.
func (c *userListCommand) Run(ctx context.Context) error {
	return c.with(ctx, func(pool *pgxpool.Pool, id schema.ID) error {
		users, err := account.NewStore(pool, time.Now).Users(ctx, id, account.Page{})
		if err != nil {
			return err
		}
		return table("ID\tEMAIL\tROLE\tCREATED\tISSUER", len(users), func(i int) string {
			u := users[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", u.ID.Text(schema.UserPrefix), u.Email, u.Role, u.CreatedAt.Format(time.RFC3339), u.Issuer)
		})
	})
}

// userFlags name a user of an account.
type userFlags struct {
	accountFlags
	User string `arg:"" name:"user" help:"Id or e-mail address of the user; see outlay user list."`
}

// find returns the user.
func (f userFlags) find(ctx context.Context, a accountChange) (account.User, error) {
	// An account has few users, so all are read and compared here, by id or by address.
	users, err := a.Users(ctx, a.id, account.Page{})
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

// changeUser changes the user and ends all of the user's sign-ins, in one transaction with the line in the audit log.
func (f userFlags) changeUser(ctx context.Context, detail map[string]any, do func(accountChange, *account.User) error) error {
	return f.change(ctx, "user.change", detail, func(a accountChange) (string, error) {
		user, err := f.find(ctx, a)
		if err != nil {
			return "", err
		}
		if err := do(a, &user); err != nil {
			return "", err
		}
		return user.ID.Text(schema.UserPrefix), auth.NewSignIns(0, time.Now).EndAll(ctx, a.tx, a.id, user.ID)
	})
}

// userDisableCommand is for users who left: their refresh tokens end with the sign-ins.
type userDisableCommand struct{ userFlags }

// Run disables the user. It may be the last owner: whoever runs the service can enable or make another one.
func (c *userDisableCommand) Run(ctx context.Context) error {
	return c.changeUser(ctx, map[string]any{"disabled": true}, func(a accountChange, u *account.User) error {
		return a.Disable(ctx, u.AccountID, u.ID)
	})
}

// userPasswordCommand is for users who lost their password, and after a password became known.
type userPasswordCommand struct {
	userFlags
	Password string `help:"New password; one is made up and printed when left out. Prefer OUTLAY_PASSWORD_FILE."`
}

// Run sets the password and prints it. The audit log has a line about it, without the password.
func (c *userPasswordCommand) Run(ctx context.Context) error {
	if c.Password == "" {
		c.Password = rand.Text()
	}
	if message := account.PasswordFault(c.Password); message != "" {
		return errors.New("--password " + message)
	}
	// The address is printed because the user may have been named by id.
	var email string
	err := c.changeUser(ctx, map[string]any{"password": "changed"}, func(a accountChange, u *account.User) error {
		if u.Outside() {
			return errors.New("an identity provider signs this user in: the password is changed there")
		}
		hash, err := hashFor(ctx, a.Store, u.Email, c.Password)
		if err != nil {
			return err
		}
		email = u.Email
		return a.SetPassword(ctx, u.AccountID, u.ID, hash)
	})
	if err == nil {
		fmt.Printf("email     %s\npassword  %s\n", email, c.Password)
	}
	return err
}
