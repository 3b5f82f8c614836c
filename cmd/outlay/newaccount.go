package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// newAccount is what an account starts with.
type newAccount struct {
	name, email string
	// password is made up when it is empty.
	password string
	plan     account.Plan
}

// credentials are shown once.
type credentials struct {
	BaseURL string `json:"base_url,omitempty"`
	// APIKey, Email and Password are what outlay load reads from the file.
	APIKey   string `json:"api_key"`
	Email    string `json:"email"`
	Password string `json:"password"`

	id schema.ID
}

// createAccount makes an account, its owner, a first API key and the first line of its audit log: all or nothing.
func createAccount(ctx context.Context, pool *pgxpool.Pool, n newAccount) (credentials, error) {
	if n.password == "" {
		n.password = rand.Text()
	}
	if err := checkSignIn(n.email, n.password); err != nil {
		return credentials{}, err
	}
	// Hashing takes tens of milliseconds, so it comes before the transaction.
	hash, err := hashFor(ctx, account.NewStore(pool, time.Now), n.email, n.password)
	if err != nil {
		return credentials{}, err
	}
	made := credentials{Email: n.email, Password: n.password}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		store := account.NewStore(tx, time.Now)
		a, err := store.CreateAccount(ctx, n.name, n.plan)
		if err != nil {
			return err
		}
		made.id = a.ID
		if _, err := store.CreateUser(ctx, a.ID, n.email, hash, account.Owner); err != nil {
			return err
		}
		if _, made.APIKey, err = store.CreateKey(ctx, a.ID, account.NewKey{Name: "first key"}); err != nil {
			return err
		}
		return noteAct(ctx, tx, a.ID, "account.create", a.ID.Text(schema.AccountPrefix), map[string]any{"plan": n.plan, "owner": n.email})
	})
	return made, err
}

// checkSignIn returns an error that names the flag with an e-mail address or a password that no user can have.
func checkSignIn(email, password string) error {
	if message := account.EmailFault(email); message != "" {
		return errors.New("--email " + message)
	}
	if message := account.PasswordFault(password); message != "" {
		return errors.New("--password " + message)
	}
	return nil
}

// hashFor returns the hash of a password of a user with this e-mail address.
func hashFor(ctx context.Context, store *account.Store, email, password string) (string, error) {
	// Users with one e-mail address share their salt, whatever accounts they are in; see HashAlike.
	users, err := store.UsersByEmail(ctx, email)
	if err != nil {
		return "", err
	}
	hash, err := account.NewHasher(1).HashAlike(ctx, users, password)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return hash, nil
}
