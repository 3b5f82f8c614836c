// Package account holds who may use the service: accounts with their plan, their
// users, and the API keys of their agents. Store writes them; Directory keeps
// the keys in memory for ingest, which has to decide about every request even
// while the database is away.
package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// ErrNotFound is returned for an id that names nothing in the account.
var ErrNotFound = errors.New("not found")

// Plan says how many events a minute an account may send.
type Plan string

// The plans.
const (
	Free       Plan = "free"
	Pro        Plan = "pro"
	Enterprise Plan = "enterprise"
)

// Sharing says who may make share links of an account's sessions.
type Sharing string

// The settings of sharing.
const (
	// SharingOff lets nobody, and stops the links that exist.
	SharingOff Sharing = "off"
	// SharingMembers lets every user. It is the default.
	SharingMembers Sharing = "members"
	// SharingAdmins lets admins and owners.
	SharingAdmins Sharing = "admins"
)

// Valid reports whether s is one of the settings.
func (s Sharing) Valid() bool { return s == SharingOff || s == SharingMembers || s == SharingAdmins }

// Account is a customer: everything that is stored belongs to one.
type Account struct {
	ID        schema.ID
	Name      string
	Plan      Plan
	Sharing   Sharing
	CreatedAt time.Time
}

// Store reads and writes accounts, users and API keys.
type Store struct {
	db  pgdb.DB
	now func() time.Time
}

// NewStore returns a Store on db, which the caller owns. now returns the time.
func NewStore(db pgdb.DB, now func() time.Time) *Store { return &Store{db: db, now: now} }

// Page chooses a part of a list, newest first. The zero Page is the whole list.
type Page struct {
	// Before leaves out what is not older than the item of this id, or nothing for nil.
	Before *schema.ID
	// Limit is the most items, 0 for all.
	Limit int
}

const insertAccount = `
INSERT INTO accounts (id, name, plan, created_at) VALUES ($1, $2, $3, $4)`

// CreateAccount makes an account.
func (s *Store) CreateAccount(ctx context.Context, name string, plan Plan) (Account, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	a := Account{ID: schema.NewID(now), Name: name, Plan: plan, Sharing: SharingMembers, CreatedAt: now}
	if _, err := s.db.Exec(ctx, insertAccount, a.ID, a.Name, a.Plan, a.CreatedAt); err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return a, nil
}

const selectAccount = `
SELECT id, name, plan, sharing, created_at FROM accounts`

const selectAccounts = selectAccount + ` ORDER BY created_at, id`

// Accounts lists all accounts, oldest first.
func (s *Store) Accounts(ctx context.Context) ([]Account, error) {
	// Query reports its error through CollectRows.
	rows, _ := s.db.Query(ctx, selectAccounts)
	accounts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Account])
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return accounts, nil
}

const selectAccountByID = selectAccount + ` WHERE id = $1`

// Account returns an account. It returns ErrNotFound.
func (s *Store) Account(ctx context.Context, id schema.ID) (Account, error) {
	rows, _ := s.db.Query(ctx, selectAccountByID, id)
	return oneAccount(rows)
}

func oneAccount(rows pgx.Rows) (Account, error) {
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Account])
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrNotFound
	}
	if err != nil {
		return Account{}, fmt.Errorf("find account: %w", err)
	}
	return a, nil
}

const updateAccount = `
UPDATE accounts SET name = coalesce($2, name), sharing = coalesce($3, sharing) WHERE id = $1
RETURNING id, name, plan, sharing, created_at`

// ChangeAccount sets what is not nil, and returns the account. It returns ErrNotFound.
func (s *Store) ChangeAccount(ctx context.Context, id schema.ID, name *string, sharing *Sharing) (Account, error) {
	rows, _ := s.db.Query(ctx, updateAccount, id, name, sharing)
	return oneAccount(rows)
}

const updatePlan = `
UPDATE accounts SET plan = $2 WHERE id = $1
RETURNING id, name, plan, sharing, created_at`

// SetPlan changes an account's plan; every replica obeys it within a second. It returns
// ErrNotFound.
func (s *Store) SetPlan(ctx context.Context, id schema.ID, plan Plan) (Account, error) {
	rows, _ := s.db.Query(ctx, updatePlan, id, plan)
	return oneAccount(rows)
}
