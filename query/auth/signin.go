package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema/account"
)

// ErrWrongPassword is returned for an address that no user has, a wrong password
// and a disabled user alike.
var ErrWrongPassword = errors.New("wrong e-mail address or password")

// TooManyTriesError is returned when a sign-in has to wait after failed ones.
type TooManyTriesError struct {
	// Wait is how long until the next try may succeed.
	Wait time.Duration
}

func (e *TooManyTriesError) Error() string {
	return fmt.Sprintf("too many failed sign-ins, wait %v", e.Wait)
}

// SignIn checks passwords. It is safe for concurrent use.
type SignIn struct {
	users    *account.Store
	hasher   *account.Hasher
	slow     *Slowdown
	familiar FamiliarFunc
}

// FamiliarFunc reports whether a network has signed in to an e-mail address before.
type FamiliarFunc func(ctx context.Context, email, network string) (bool, error)

// NewSignIn returns a SignIn that finds users in users.
func NewSignIn(users *account.Store, hasher *account.Hasher, slow *Slowdown, familiar FamiliarFunc) *SignIn {
	return &SignIn{users: users, hasher: hasher, slow: slow, familiar: familiar}
}

// Check returns the user with this e-mail address and password. address is the
// network address that asks. It returns ErrWrongPassword, a *TooManyTriesError, or
// an error of the database.
func (s *SignIn) Check(ctx context.Context, email, password, address string) (account.User, error) {
	try := Try{Email: email, Address: address, Familiar: func() bool {
		// A database that does not answer makes nobody familiar.
		familiar, err := s.familiar(ctx, email, Network(address))
		return err == nil && familiar
	}}
	if wait := s.slow.Begin(try); wait > 0 {
		return account.User{}, &TooManyTriesError{Wait: wait}
	}
	user, err := s.check(ctx, email, password)
	switch {
	case err == nil:
		s.slow.Succeed(try)
	case !errors.Is(err, ErrWrongPassword):
		s.slow.Undo(try)
	}
	return user, err
}

func (s *SignIn) check(ctx context.Context, email, password string) (account.User, error) {
	user, err := s.users.UserByEmail(ctx, email)
	if errors.Is(err, account.ErrNotFound) {
		if err := s.hasher.CheckNone(ctx, password); err != nil {
			return account.User{}, err
		}
		return account.User{}, ErrWrongPassword
	}
	if err != nil {
		return account.User{}, err
	}
	right, err := s.hasher.Check(ctx, user.PasswordHash, password)
	if err != nil {
		return account.User{}, err
	}
	if !right || user.DisabledAt != nil {
		return account.User{}, ErrWrongPassword
	}
	return user, nil
}
