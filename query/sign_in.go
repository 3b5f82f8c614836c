package query

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// loginRequest signs in with a password.
type loginRequest struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	// AccountID is for an e-mail address that has users in several accounts.
	AccountID string `json:"account_id"`
}

// attempt returns what the request signs in with, from an address.
func (r *loginRequest) attempt(address string) (a auth.Attempt, err error) {
	a = auth.Attempt{Email: r.Email, Password: r.Password, Address: address}
	var faults schema.Faults
	// An id is checked as such; whether there is an account shows only with the password.
	if r.AccountID != "" {
		if a.AccountID, err = schema.ParseID(schema.AccountPrefix, r.AccountID); err != nil {
			faults.Add("account_id", "must be the id of an account, acc_…")
		}
	}
	if r.Email == "" {
		faults.Add("email", "is required")
	}
	if r.Password == "" {
		faults.Add("password", "is required")
	}
	// Hashing takes longer for longer texts; four bytes are the longest character.
	if len(r.Password) > 4*account.MaxPasswordLength {
		faults.Add("password", "is too long")
	}
	return a, rest.Invalid(faults)
}

// tokenReply is a pair of tokens, as RFC 6749 names its fields.
type tokenReply struct {
	// Token goes into the header Authorization: Bearer.
	Token     string `json:"token"`
	TokenType string `json:"token_type"`
	// ExpiresIn is in seconds.
	ExpiresIn int64 `json:"expires_in"`
	// RefreshToken is good for one exchange at POST /v1/auth/refresh.
	RefreshToken string `json:"refresh_token"`
}

// signInTimeout bounds a sign-in, waiting for its turn to be hashed included.
const signInTimeout = 10 * time.Second

// finishing returns a context for what is finished even when the client goes away.
func finishing(c *rest.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Ctx()), signInTimeout)
}

// login answers a token for an e-mail address and its password.
func (s *Server) login(c *rest.Request, request *loginRequest) error {
	attempt, err := request.attempt(c.ClientIP())
	if err != nil {
		return err
	}
	user, err := s.checkPassword(c, attempt)
	s.metrics.signIns.WithLabelValues(signInOutcome(err)).Inc()
	if err != nil {
		return signInError(err)
	}
	who, refresh, err := s.startSignIn(c, user)
	if err != nil {
		return err
	}
	return s.replyToken(c, who, refresh)
}

// checkPassword returns the user whom an attempt signs in. One that fails goes to the
// audit log of the accounts that have the e-mail address.
func (s *Server) checkPassword(c *rest.Request, a auth.Attempt) (account.User, error) {
	// A client that goes away must not be able to try a password without its being counted.
	ctx, cancel := finishing(c)
	defer cancel()
	user, err := s.signIn.Check(ctx, a)
	var tooMany *auth.TooManyTriesError
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		s.failures.note(c, a, reasonWrong)
	// Only the first of a series: a flood of tries must not fill the audit log.
	case errors.As(err, &tooMany) && tooMany.First:
		s.failures.note(c, a, reasonThrottled)
	}
	return user, err
}

// startSignIn begins a sign-in and notes it in the audit log.
func (s *Server) startSignIn(c *rest.Request, user account.User) (who auth.Principal, refresh string, err error) {
	who = auth.Principal{UserID: user.ID, AccountID: user.AccountID, Role: user.Role}
	act, err := s.actOf(c, &user.ID, "sign_in.start", user.ID.Text(schema.UserPrefix), struct{}{})
	if err != nil {
		return who, "", err
	}
	ctx, cancel := finishing(c)
	defer cancel()
	err = s.usage.Administer(ctx, user.AccountID, act, func(ctx context.Context, tx pgx.Tx) (err error) {
		// The network is remembered with the sign-in, and may try again sooner later on.
		who.SignIn, refresh, err = s.signIns.Start(ctx, tx, user, auth.Network(c.ClientIP()))
		return err
	})
	return who, refresh, err
}

// replyToken issues the access token: nothing of it is stored.
func (s *Server) replyToken(c *rest.Request, who auth.Principal, refresh string) error {
	token, lifetime, err := s.tokens.Issue(who)
	if err != nil {
		return err
	}
	return c.Reply(tokenReply{Token: token, TokenType: "Bearer", ExpiresIn: int64(lifetime / time.Second), RefreshToken: refresh})
}

// signInOutcome is the label of the metric.
func signInOutcome(err error) string {
	var tooMany *auth.TooManyTriesError
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, auth.ErrWrongPassword):
		return outcomeWrong
	case errors.As(err, &tooMany):
		return outcomeThrottled
	}
	return outcomeError
}

// signInError says the same for an unknown address as for a wrong password.
func signInError(err error) error {
	var tooMany *auth.TooManyTriesError
	switch {
	case errors.Is(err, auth.ErrWrongPassword):
		return problem.New(problem.Unauthorized, "The e-mail address or the password is wrong.")
	case errors.As(err, &tooMany):
		return &problem.Problem{
			Code: problem.RateLimited, RetryAfter: tooMany.Wait,
			Detail: "Too many sign-ins failed. Wait as long as Retry-After says before the next one.",
		}
	}
	return err
}

// meReply is the user of a token.
type meReply struct {
	UserID    string       `json:"user_id"`
	AccountID string       `json:"account_id"`
	Email     string       `json:"email"`
	Role      account.Role `json:"role"`
	CreatedAt usage.Time   `json:"created_at"`
	// ExpiresAt is the end of this token, not of the sign-in.
	ExpiresAt usage.Time `json:"token_expires_at"`
}

// me answers who the token speaks for.
func (s *Server) me(c *rest.Request) error {
	return c.Reply(meReply{
		UserID:    c.Who.UserID.Text(schema.UserPrefix),
		AccountID: c.Who.AccountID.Text(schema.AccountPrefix),
		Email:     c.Who.Email,
		Role:      c.Who.Role,
		CreatedAt: usage.Time{Time: c.Who.CreatedAt},
		ExpiresAt: usage.Time{Time: c.Who.ExpiresAt},
	})
}

// jwks answers the public keys that tokens are signed with.
func (s *Server) jwks(c *rest.Request) error {
	c.Header("Cache-Control", "public, max-age=300")
	return c.ReplyStatus(http.StatusOK, s.keys.JWKS())
}
