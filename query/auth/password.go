package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// ErrWrongPassword is returned for an address that no user has, a wrong password
// and a disabled user alike.
var ErrWrongPassword = errors.New("wrong e-mail address or password")

// TooManyTriesError is returned when a sign-in has to wait after failed ones.
type TooManyTriesError struct {
	// Wait is how long until the next try may succeed.
	Wait time.Duration
	// First is set for the first try that waits since one that failed.
	First bool
}

func (e *TooManyTriesError) Error() string {
	return fmt.Sprintf("too many failed sign-ins, wait %v", e.Wait)
}

// SignIn checks passwords. It is safe for concurrent use.
type SignIn struct {
	users    *account.Store
	hasher   *account.Hasher
	throttle *Throttle
	familiar FamiliarFunc
}

// FamiliarFunc reports whether a network has signed in to an e-mail address before.
type FamiliarFunc func(ctx context.Context, email, network string) (bool, error)

// NewSignIn returns a SignIn that finds users in users.
func NewSignIn(users *account.Store, hasher *account.Hasher, throttle *Throttle, familiar FamiliarFunc) *SignIn {
	return &SignIn{users: users, hasher: hasher, throttle: throttle, familiar: familiar}
}

// Attempt is what somebody signs in with.
type Attempt struct {
	Email, Password string
	// AccountID says which user is meant where the e-mail address has one in several
	// accounts. Zero takes the oldest whose password it is.
	AccountID schema.ID
	// Address is the network address that asks.
	Address string
}

// Check returns the user whom an attempt signs in. It returns ErrWrongPassword, a
// *TooManyTriesError, or an error of the database.
func (s *SignIn) Check(ctx context.Context, a Attempt) (account.User, error) {
	try := Try{Email: a.Email, Address: a.Address, Familiar: func() bool {
		// A database that does not answer makes nobody familiar.
		familiar, err := s.familiar(ctx, a.Email, Network(a.Address))
		return err == nil && familiar
	}}
	if wait, first := s.throttle.Begin(try); wait > 0 {
		return account.User{}, &TooManyTriesError{Wait: wait, First: first}
	}
	user, err := s.check(ctx, a)
	if !errors.Is(err, ErrWrongPassword) {
		s.throttle.Undo(try)
	}
	return user, err
}

func (s *SignIn) check(ctx context.Context, a Attempt) (account.User, error) {
	users, err := s.users.UsersByEmail(ctx, a.Email)
	if err != nil {
		return account.User{}, err
	}
	right, err := s.hasher.CheckAll(ctx, users, a.Password)
	if err != nil {
		return account.User{}, err
	}
	for i := range right {
		if right[i].DisabledAt == nil && (a.AccountID.IsZero() || right[i].AccountID == a.AccountID) {
			return right[i], nil
		}
	}
	return account.User{}, ErrWrongPassword
}
