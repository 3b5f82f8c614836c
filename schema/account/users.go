package account

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// Role says what a user may do in the account.
type Role string

// The roles. Each may do what the one before it may.
const (
	// Viewer reads.
	Viewer Role = "viewer"
	// Admin also manages budgets, alerts, reports, keys and prices.
	Admin Role = "admin"
	// Owner also manages users and the account.
	Owner Role = "owner"
)

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return r.rank() > 0 }

// Allows reports whether a user of role r may do what needs role need.
func (r Role) Allows(need Role) bool { return need.Valid() && r.rank() >= need.rank() }

func (r Role) rank() int {
	switch r {
	case Viewer:
		return 1
	case Admin:
		return 2
	case Owner:
		return 3
	}
	return 0
}

// User is a person who signs in. PasswordHash is a PHC string.
type User struct {
	ID           schema.ID
	AccountID    schema.ID
	Email        string
	PasswordHash string
	Role         Role
	CreatedAt    time.Time
	DisabledAt   *time.Time
	// Issuer is the identity provider that signs the user in and Subject its name for
	// the user. Both are empty for a user who has a password here.
	Issuer, Subject string
}

// Outside reports whether an outside identity provider signs the user in.
func (u *User) Outside() bool { return u.Issuer != "" }

// ErrEmailTaken is returned when another user of the account has the address.
var ErrEmailTaken = errors.New("email address is taken")

// maxEmailLength is the longest address that mail servers accept.
const maxEmailLength = 254

// EmailFault returns what is wrong with an address, or "".
func EmailFault(email string) string {
	if email == "" {
		return "is required"
	}
	if message := schema.TextFault(email, maxEmailLength); message != "" {
		return message
	}
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email {
		return "must be an e-mail address, such as ada@example.com"
	}
	return ""
}

const insertUser = `
INSERT INTO users (id, account_id, email, password_hash, role, created_at)
VALUES ($1, $2, $3, $4, $5, $6)`

// CreateUser makes a user. passwordHash comes from Hasher.Hash; the caller has
// checked the address with EmailFault. It returns ErrEmailTaken.
func (s *Store) CreateUser(ctx context.Context, accountID schema.ID, email, passwordHash string, role Role) (User, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	u := User{
		ID: schema.NewID(now), AccountID: accountID, Email: email,
		PasswordHash: passwordHash, Role: role, CreatedAt: now,
	}
	_, err := s.db.Exec(ctx, insertUser, u.ID, u.AccountID, u.Email, u.PasswordHash, u.Role, u.CreatedAt)
	if pgdb.SQLState(err) == pgdb.UniqueViolation {
		return User{}, ErrEmailTaken
	}
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return u, nil
}

const userColumns = `id, account_id, email, password_hash, role, created_at, disabled_at, coalesce(issuer, ''), coalesce(subject, '')`

const selectUser = `
SELECT ` + userColumns + ` FROM users`

const selectUsersByEmail = `
SELECT ` + userColumns + ` FROM users_signing_in($1)`

// UsersByEmail finds the users of any account with an address, in any case of letters,
// the oldest first; it is for signing in with a password, which outside users do not.
// Disabled users are found too.
func (s *Store) UsersByEmail(ctx context.Context, email string) ([]User, error) {
	// No user has an address that PostgreSQL would refuse to compare.
	if schema.TextFault(email, maxEmailLength) != "" {
		return nil, nil
	}
	rows, _ := s.db.Query(ctx, selectUsersByEmail, email)
	users, err := pgx.CollectRows(rows, pgx.RowToStructByPos[User])
	if err != nil {
		return nil, fmt.Errorf("find users: %w", err)
	}
	return users, nil
}

const selectUserByID = selectUser + ` WHERE account_id = $1 AND id = $2`

// User finds a user of an account. It returns ErrNotFound.
func (s *Store) User(ctx context.Context, accountID, userID schema.ID) (User, error) {
	return s.oneUser(ctx, selectUserByID, accountID, userID)
}

func (s *Store) oneUser(ctx context.Context, sql string, args ...any) (User, error) {
	rows, _ := s.db.Query(ctx, sql, args...)
	u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[User])
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

const selectUsers = selectUser + `
WHERE account_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT nullif($3, 0)`

// Users lists the users of an account, newest first, disabled ones included.
func (s *Store) Users(ctx context.Context, accountID schema.ID, page Page) ([]User, error) {
	rows, _ := s.db.Query(ctx, selectUsers, accountID, page.Before, page.Limit)
	users, err := pgx.CollectRows(rows, pgx.RowToStructByPos[User])
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return users, nil
}

const lockUsers = `
SELECT id FROM users WHERE account_id = $1 ORDER BY id FOR UPDATE`

// LockUsers makes other changes of the account's users wait for the end of the
// caller's transaction, so that two of them cannot each remove one of the last two
// owners.
func (s *Store) LockUsers(ctx context.Context, accountID schema.ID) error {
	return pgdb.Exec(ctx, s.db, "lock users", lockUsers, accountID)
}

const updateUserRole = `
UPDATE users SET role = $3 WHERE account_id = $1 AND id = $2`

// SetRole changes what a user may do. It returns ErrNotFound.
func (s *Store) SetRole(ctx context.Context, accountID, userID schema.ID, role Role) error {
	return s.changeUser(ctx, updateUserRole, accountID, userID, role)
}

const updateUserPassword = `
UPDATE users SET password_hash = $3 WHERE account_id = $1 AND id = $2`

// SetPassword replaces a user's password hash. It returns ErrNotFound.
func (s *Store) SetPassword(ctx context.Context, accountID, userID schema.ID, passwordHash string) error {
	return s.changeUser(ctx, updateUserPassword, accountID, userID, passwordHash)
}

const updateUserDisabled = `
UPDATE users SET disabled_at = CASE WHEN $3::timestamptz IS NULL THEN NULL ELSE coalesce(disabled_at, $3) END
WHERE account_id = $1 AND id = $2`

// Disable stops a user from signing in. It returns ErrNotFound; disabling twice
// is no error and keeps the first time.
func (s *Store) Disable(ctx context.Context, accountID, userID schema.ID) error {
	return s.changeUser(ctx, updateUserDisabled, accountID, userID, s.now().UTC())
}

// Enable lets a disabled user sign in again. It returns ErrNotFound.
func (s *Store) Enable(ctx context.Context, accountID, userID schema.ID) error {
	return s.changeUser(ctx, updateUserDisabled, accountID, userID, nil)
}

func (s *Store) changeUser(ctx context.Context, sql string, args ...any) error {
	return pgdb.Change(ctx, s.db, "change user", ErrNotFound, sql, args...)
}
