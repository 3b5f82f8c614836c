package query

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// refreshRequest holds a refresh token, for exchanging it and for signing out.
type refreshRequest struct {
	RefreshToken string `json:"refresh_token"`
}

// refreshToken returns the token of a request.
func refreshToken(c *rest.Request) (string, error) {
	var request refreshRequest
	if err := c.Body(&request); err != nil {
		return "", err
	}
	if request.RefreshToken == "" {
		return "", problem.FromFaults(schema.Faults{{Field: "refresh_token", Message: "is required"}})
	}
	return request.RefreshToken, nil
}

var errBadRefresh = problem.New(problem.Unauthorized,
	"The refresh token is not valid: it has expired, was used before, or the sign-in was ended. Sign in again.")

// refresh exchanges a refresh token for a token and the next refresh token.
func (s *Server) refresh(c *rest.Request) error {
	token, err := refreshToken(c)
	if err != nil {
		return err
	}
	// reused is no error inside: the end of the sign-in has to be committed.
	who, next, err := s.exchange(c, token)
	reused := err == nil && next == ""
	s.metrics.refreshes.WithLabelValues(refreshOutcome(err, reused)).Inc()
	if errors.Is(err, auth.ErrBadRefresh) || reused {
		return errBadRefresh
	}
	if err != nil {
		return err
	}
	return s.replyToken(c, who, next)
}

// exchange returns the next refresh token, or none when this one was used before:
// somebody else has it, or had it first. Then the sign-in has ended, and the audit log
// has it.
func (s *Server) exchange(c *rest.Request, token string) (who auth.Principal, next string, err error) {
	ctx, cancel := finishing(c)
	defer cancel()
	// Which account a token is of is not known before, hence a statement without one.
	accountID, err := s.signIns.Account(ctx, s.pool, token)
	if err != nil {
		return who, "", err
	}
	err = s.usage.Write(ctx, accountID, func(ctx context.Context, tx pgx.Tx) error {
		who, next, err = s.signIns.Refresh(ctx, tx, token)
		// Good, or not known at all: only a token that was used before is a reason to write a line.
		if err != nil || next != "" {
			return err
		}
		// Nobody knows which of the two the user is, so the line has none.
		act, err := s.actOf(c, nil, "sign_in.reuse", who.UserID.Text(schema.UserPrefix), struct{}{})
		if err != nil {
			return err
		}
		return act.Note(ctx, tx, accountID)
	})
	return who, next, err
}

// refreshOutcome is the label of the metric.
func refreshOutcome(err error, reused bool) string {
	switch {
	case reused:
		return outcomeReused
	case err == nil:
		return outcomeOK
	case errors.Is(err, auth.ErrBadRefresh):
		return outcomeWrong
	}
	return outcomeError
}

// logout ends the sign-in of a refresh token. It succeeds for a token that is of
// no use any more.
func (s *Server) logout(c *rest.Request) error {
	token, err := refreshToken(c)
	if err != nil {
		return err
	}
	// Signing out twice is no error: the client wanted to be signed out, and is.
	if err := s.endSignIn(c, token); err != nil && !errors.Is(err, auth.ErrBadRefresh) {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

// endSignIn ends the sign-in and its access tokens, on this replica at once and on the others within a second.
func (s *Server) endSignIn(c *rest.Request, token string) error {
	ctx, cancel := finishing(c)
	defer cancel()
	accountID, err := s.signIns.Account(ctx, s.pool, token)
	if err != nil {
		return err
	}
	act, err := s.actOf(c, nil, "sign_in.end", "", struct{}{})
	if err != nil {
		return err
	}
	var userID schema.ID
	err = s.usage.Administer(ctx, accountID, act, func(ctx context.Context, tx pgx.Tx) error {
		// Whose sign-in it was is known only now, so the line of the audit log is completed here.
		userID, err = s.signIns.End(ctx, tx, token)
		act.UserID, act.Target = &userID, userID.Text(schema.UserPrefix)
		return err
	})
	if err == nil {
		s.sessions.Forget(userID)
	}
	return err
}

// changePasswordRequest holds both passwords: a stolen access token alone does not take an account over.
type changePasswordRequest struct {
	CurrentPassword string `json:"current_password"`
	NewPassword     string `json:"new_password"`
}

// err checks the new password as such; the current one is compared later.
func (r *changePasswordRequest) err() error {
	var faults schema.Faults
	if r.CurrentPassword == "" {
		faults.Add("current_password", "is required")
	}
	if message := account.PasswordFault(r.NewPassword); message != "" {
		faults.Add("new_password", message)
	}
	return rest.Invalid(faults)
}

// changePassword gives the user another password and ends all of the user's
// sign-ins.
func (s *Server) changePassword(c *rest.Request, request *changePasswordRequest) error {
	ctx, cancel := finishing(c)
	defer cancel()
	// The user is read for its identity provider, which no token of ours names.
	user, err := s.ownAccounts(c).User(ctx, c.Who.AccountID, c.Who.UserID)
	if err != nil {
		return storeError(err, "user")
	}
	if user.Outside() {
		return errFederatedUser
	}
	// The same check as signing in, so that a stolen token guesses no faster.
	attempt := auth.Attempt{Email: user.Email, Password: request.CurrentPassword, AccountID: user.AccountID, Address: c.ClientIP()}
	if _, err := s.checkPassword(c, attempt); err != nil {
		if errors.Is(err, auth.ErrWrongPassword) {
			return problem.FromFaults(schema.Faults{{Field: "current_password", Message: "is wrong"}})
		}
		return signInError(err)
	}
	// Hashing is slow on purpose and is done before the transaction takes its locks.
	hash, err := s.hashFor(ctx, user.Email, request.NewPassword)
	if err != nil {
		return err
	}
	err = s.administer(c, "user.change_password", struct{}{}, func(ctx context.Context, tx pgx.Tx, store *account.Store) (string, error) {
		if err := store.SetPassword(ctx, user.AccountID, user.ID, hash); err != nil {
			return "", err
		}
		return user.ID.Text(schema.UserPrefix), s.signIns.EndAll(ctx, tx, user.AccountID, user.ID)
	})
	if err != nil {
		return err
	}
	s.sessions.Forget(user.ID)
	c.Status(http.StatusNoContent)
	return nil
}
