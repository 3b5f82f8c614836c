package query

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// allow lets h answer those who show a token with a role that allows need, as often as the plan of their account says.
func (s *Server) allow(need account.Role, h handler) handler {
	return s.allowCounted(need, s.countRead, h)
}

// allowCounted counts before it compares the role, so that requests that are refused cost the account as well.
func (s *Server) allowCounted(need account.Role, count handler, h handler) handler {
	return func(c *rest.Request) error {
		who, err := s.authenticate(c)
		if err != nil {
			return err
		}
		c.Who = who
		if err := count(c); err != nil {
			return err
		}
		if !who.Role.Allows(need) {
			return problem.New(problem.Forbidden, fmt.Sprintf("This needs the role %s; yours is %s.", need, who.Role))
		}
		return h(c)
	}
}

// The refusals of those who are not let in. None of them says why a token is not good: that is in the debug log.
var (
	errNoToken = problem.New(problem.Unauthorized,
		"Send the token of POST /v1/auth/login in the header Authorization: Bearer <token>.")
	errAPIKey = problem.New(problem.Unauthorized,
		`This endpoint takes a token of POST /v1/auth/login, or for reading an API key with the scope "read" that has neither expired nor been revoked.`)
	errKeyReads = problem.New(problem.Forbidden,
		"An API key only reads. Sign in to change something: this endpoint takes a token of POST /v1/auth/login.")
	errBadToken = problem.New(problem.Unauthorized,
		"The token is not valid or has expired. Sign in again, or send a refresh token to POST /v1/auth/refresh.")
)

// authenticate returns who asks, by a token of ours, of an identity provider, or an API key.
func (s *Server) authenticate(c *rest.Request) (auth.Principal, error) {
	r := c.Request
	credentials := r.Header.Values("Authorization")
	// A proxy might look at another one of several headers.
	if len(credentials) != 1 {
		return auth.Principal{}, errNoToken
	}
	scheme, token, _ := strings.Cut(credentials[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return auth.Principal{}, errNoToken
	}
	if strings.HasPrefix(token, account.KeyPrefix) {
		return s.authenticateKey(c, token)
	}
	// First the token by itself, mostly from memory; then whether its user and sign-in still stand.
	who, err := s.verifier.Verify(r.Context(), token)
	if err != nil {
		s.log.DebugContext(r.Context(), "token refused", "error", err)
		return auth.Principal{}, errBadToken
	}
	who, err = s.sessions.Check(r.Context(), who)
	if errors.Is(err, auth.ErrBadToken) {
		return auth.Principal{}, errBadToken
	}
	return who, err
}

// authenticateKey returns who may read with an API key: a viewer of its account, who is no user.
func (s *Server) authenticateKey(c *rest.Request, secret string) (auth.Principal, error) {
	hash, ok := account.ParseSecret(secret)
	if !ok {
		return auth.Principal{}, errAPIKey
	}
	// c gives the client's network, which the look-ups of unknown keys are counted by.
	key, ok, err := s.apiKeys.Lookup(c.Ctx(), hash, c)
	switch method := c.Request.Method; {
	case errors.Is(err, account.ErrTooManyLookups):
		s.metrics.refusedKeyLookups.Inc()
		now := s.now()
		return auth.Principal{}, &problem.Problem{
			Code: problem.RateLimited, RetryAfter: now.Truncate(time.Minute).Add(time.Minute).Sub(now),
			Detail: "Too many API keys that are not for reading or do not exist came from this network, and this one is not known yet. Send the request again after the seconds in Retry-After.",
		}
	case err != nil:
		return auth.Principal{}, fmt.Errorf("look the api key up: %w", err)
	case !ok:
		return auth.Principal{}, errAPIKey
	// Last, so that only who has a good key learns that keys cannot change anything.
	case method != http.MethodGet && method != http.MethodHead:
		return auth.Principal{}, errKeyReads
	}
	return auth.Principal{AccountID: key.AccountID, Plan: key.Plan, Role: account.Viewer}, nil
}

// ofUser lets h answer only those who have signed in: what it does is done by a user.
func ofUser(h handler) handler {
	return func(c *rest.Request) error {
		if c.Who.UserID.IsZero() {
			return errKeyReads
		}
		return h(c)
	}
}
