package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// standingAge is how long an answer of the database is believed: so soon a
// disabled user, a changed role and a sign-out show on every replica.
const standingAge = 10 * time.Second

// maxStandings bounds the memory; when it is full it starts anew.
const maxStandings = 10_000

// Standing knows whether those who hold a good token may still use it. A token
// alone cannot tell: it stays good until it expires. It is safe for concurrent use.
type Standing struct {
	db  Accounts
	now func() time.Time

	mu    sync.Mutex
	known map[standingKey]standing
}

// A standingKey has an outsider, or else a user. Whatever a provider's token says is in
// it, so that another role is not taken for the former.
type standingKey struct {
	account, user, signIn schema.ID
	outsider              account.Outsider
}

type standing struct {
	user  account.User
	known bool // and not disabled
	at    time.Time
}

// Accounts runs statements that see one account only.
type Accounts interface {
	// Read returns what runs single statements that read.
	Read(accountID schema.ID) account.DB
	// Write runs f in a transaction.
	Write(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error
}

// NewStanding returns a Standing that has asked nothing.
func NewStanding(db Accounts, now func() time.Time) *Standing {
	return &Standing{db: db, now: now, known: map[standingKey]standing{}}
}

const selectUser = `
SELECT id, role, email, created_at FROM users
WHERE account_id = $1 AND id = $2 AND disabled_at IS NULL`

const selectUserInSignIn = selectUser + `
	AND NOT EXISTS (SELECT FROM refresh_tokens WHERE sign_in_id = $3 AND account_id = $1 AND revoked_at IS NOT NULL)`

// Check returns who with the user and its role, address and age as they are now, or ErrBadToken when the
// user is gone or disabled or the sign-in was ended. An outsider whom nobody has seen
// yet becomes a user.
func (s *Standing) Check(ctx context.Context, who Principal) (Principal, error) {
	key := standingKey{account: who.AccountID, user: who.UserID, signIn: who.SignIn}
	if who.Outsider != nil {
		key.outsider = *who.Outsider
	}
	s.mu.Lock()
	found, ok := s.known[key]
	s.mu.Unlock()
	if !ok || s.now().Sub(found.at) >= standingAge {
		var err error
		if found, err = s.ask(ctx, key); err != nil {
			return Principal{}, err
		}
		s.remember(key, found)
	}
	if !found.known {
		return Principal{}, fmt.Errorf("%w: the user or the sign-in has ended", ErrBadToken)
	}
	u := &found.user
	who.UserID, who.Role, who.Email, who.CreatedAt = u.ID, u.Role, u.Email, u.CreatedAt
	return who, nil
}

func (s *Standing) ask(ctx context.Context, key standingKey) (found standing, err error) {
	found.at = s.now()
	if key.outsider.Issuer == "" {
		found.user, err = s.askUser(ctx, key)
	} else {
		err = s.db.Write(ctx, key.outsider.AccountID, func(ctx context.Context, tx pgx.Tx) error {
			found.user, err = account.NewStore(tx, s.now).SeeOutsider(ctx, key.outsider)
			return err
		})
	}
	if errors.Is(err, account.ErrNotFound) {
		return found, nil
	}
	found.known = err == nil && found.user.DisabledAt == nil
	return found, err
}

func (s *Standing) askUser(ctx context.Context, key standingKey) (u account.User, err error) {
	statement, args := selectUser, []any{key.account, key.user}
	if !key.signIn.IsZero() {
		statement, args = selectUserInSignIn, append(args, key.signIn)
	}
	err = s.db.Read(key.account).QueryRow(ctx, statement, args...).Scan(&u.ID, &u.Role, &u.Email, &u.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return u, account.ErrNotFound
	}
	if err != nil {
		return u, fmt.Errorf("check user: %w", err)
	}
	return u, nil
}

func (s *Standing) remember(key standingKey, found standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxStandings {
		clear(s.known)
	}
	s.known[key] = found
}

// Forget makes the next Check of a user ask again, on this replica.
func (s *Standing) Forget(userID schema.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, found := range s.known {
		if key.user == userID || found.user.ID == userID {
			delete(s.known, key)
		}
	}
}
