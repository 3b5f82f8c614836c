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
	"github.com/outlayhq/outlay/schema/pgdb"
)

// sessionStateAge is how long an answer of the database is believed when no notice of a change comes: so soon a sign-out
// shows on every replica, and while notices are lost a disabled user, another role and another plan.
const sessionStateAge = 10 * time.Second

// maxSessionStates bounds the memory; when it is full it starts anew.
const maxSessionStates = 10_000

// SessionState knows whether those who hold a good token may still use it. A token
// alone cannot show: it stays good until it expires. It is safe for concurrent use.
type SessionState struct {
	db  Accounts
	now func() time.Time

	mu    sync.Mutex
	known map[sessionKey]sessionRecord
	// changes counts the notices: what was asked before one is not remembered after it.
	changes int
}

// A sessionKey has a federated user, or else one of ours. Whatever a provider's token says is in
// it, so that another role is not taken for the former.
type sessionKey struct {
	account, user, signIn schema.ID
	outsider              account.Outsider
}

// sessionRecord is what the database said of a key, of unknown and disabled users too.
type sessionRecord struct {
	// user is of the database, whatever the token says.
	user  account.User
	plan  account.Plan
	known bool // and not disabled
	// at is when the database was asked.
	at time.Time
}

// Accounts runs statements that see one account only.
type Accounts interface {
	// Read returns what runs single statements that read.
	Read(accountID schema.ID) pgdb.DB
	// Write runs f in a transaction.
	Write(ctx context.Context, accountID schema.ID, f func(context.Context, pgx.Tx) error) error
}

// NewSessionState returns a SessionState that has asked nothing.
func NewSessionState(db Accounts, now func() time.Time) *SessionState {
	return &SessionState{db: db, now: now, known: map[sessionKey]sessionRecord{}}
}

const selectUser = `
SELECT u.id, u.role, u.email, u.created_at, a.plan FROM users u JOIN accounts a ON a.id = u.account_id
WHERE u.account_id = $1 AND u.id = $2 AND u.disabled_at IS NULL`

const selectPlan = `SELECT plan FROM accounts WHERE id = $1`

const selectUserInSignIn = selectUser + `
	AND NOT EXISTS (SELECT FROM refresh_tokens WHERE sign_in_id = $3 AND account_id = $1 AND revoked_at IS NOT NULL)`

// Check returns who with the plan of the account and the user and its role, address and age as they are now, or ErrBadToken when the
// user is gone or disabled or the sign-in was ended. A federated user whom nobody has seen
// yet becomes a user.
func (s *SessionState) Check(ctx context.Context, who Principal) (Principal, error) {
	key := sessionKey{account: who.AccountID, user: who.UserID, signIn: who.SignIn}
	if who.Outsider != nil {
		key.outsider = *who.Outsider
	}
	s.mu.Lock()
	found, ok := s.known[key]
	changes := s.changes
	s.mu.Unlock()
	if !ok || s.now().Sub(found.at) >= sessionStateAge {
		var err error
		if found, err = s.ask(ctx, key); err != nil {
			return Principal{}, err
		}
		s.remember(key, found, changes)
	}
	if !found.known {
		return Principal{}, fmt.Errorf("%w: the user or the sign-in has ended", ErrBadToken)
	}
	u := &found.user
	who.UserID, who.Role, who.Email, who.CreatedAt, who.Plan = u.ID, u.Role, u.Email, u.CreatedAt, found.plan
	return who, nil
}

// ask asks the database. Only a federated user needs a transaction, since it may have to be made.
func (s *SessionState) ask(ctx context.Context, key sessionKey) (found sessionRecord, err error) {
	found.at = s.now()
	if key.outsider.Issuer == "" {
		err = s.askUser(ctx, key, &found)
	} else {
		err = s.db.Write(ctx, key.outsider.AccountID, func(ctx context.Context, tx pgx.Tx) error {
			if found.user, err = account.NewStore(tx, s.now).SeeOutsider(ctx, key.outsider); err != nil {
				return err
			}
			return tx.QueryRow(ctx, selectPlan, key.outsider.AccountID).Scan(&found.plan)
		})
	}
	if errors.Is(err, account.ErrNotFound) {
		return found, nil
	}
	found.known = err == nil && found.user.DisabledAt == nil
	return found, err
}

// askUser reads the user, the plan, and whether the sign-in has ended, in one statement.
func (s *SessionState) askUser(ctx context.Context, key sessionKey, found *sessionRecord) error {
	statement, args := selectUser, []any{key.account, key.user}
	if !key.signIn.IsZero() {
		statement, args = selectUserInSignIn, append(args, key.signIn)
	}
	u := &found.user
	err := s.db.Read(key.account).QueryRow(ctx, statement, args...).Scan(&u.ID, &u.Role, &u.Email, &u.CreatedAt, &found.plan)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("check user: %w", err)
	}
	return nil
}

func (s *SessionState) remember(key sessionKey, found sessionRecord, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A notice came while the database was asked: the answer may be older than the change.
	if s.changes != changes {
		return
	}
	if len(s.known) >= maxSessionStates {
		clear(s.known)
	}
	s.known[key] = found
}

// Changed makes every next Check ask again: accounts or users are not what they were.
func (s *SessionState) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	clear(s.known)
}

// Forget makes the next Check of a user ask again, on this replica.
func (s *SessionState) Forget(userID schema.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	for key, found := range s.known {
		if key.user == userID || found.user.ID == userID {
			delete(s.known, key)
		}
	}
}
