package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/problem"
)

type fault = schema.Fault

// request is one HTTP request on its way through a handler.
type request struct {
	*gin.Context
	// who asks; the zero Principal on an open endpoint.
	who auth.Principal
}

// ctx ends when the client goes away.
func (c *request) ctx() context.Context { return c.Request.Context() }

// Param returns what stands in the path in the place of :name, decoded.
func (c *request) Param(name string) string {
	text, err := url.PathUnescape(c.Context.Param(name))
	if err != nil {
		panic("BUG: a path that was parsed cannot be decoded: " + err.Error())
	}
	return text
}

// handler answers a request or returns why it does not.
type handler func(*request) error

// adapt is the one place where an error becomes an answer.
func (s *Server) adapt(h handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		err := h(&request{Context: g})
		if err == nil {
			return
		}
		s.report(g, err)
		if g.Writer.Written() {
			// Half an answer is worse than a broken connection.
			panic(http.ErrAbortHandler)
		}
		httpserver.DiscardBody(g.Request)
		problem.Write(g.Writer, requestID(g), err)
	}
}

// report logs what an operator should see: errors that are ours.
func (s *Server) report(g *gin.Context, err error) {
	var p *problem.Problem
	if errors.As(err, &p) && p.Code.Status() < http.StatusInternalServerError {
		return
	}
	ctx := g.Request.Context()
	if ctx.Err() != nil {
		s.log.DebugContext(ctx, "client went away", "route", g.FullPath(), "error", err)
		return
	}
	s.log.ErrorContext(ctx, "request failed", "route", g.FullPath(), "request_id", requestID(g), "error", err)
}

// allow lets h answer those who show a token with a role that allows need, as often as the plan of their account says.
func (s *Server) allow(need account.Role, h handler) handler {
	return s.allowCounted(need, s.countRead, h)
}

func (s *Server) allowCounted(need account.Role, count handler, h handler) handler {
	return func(c *request) error {
		who, err := s.authenticate(c)
		if err != nil {
			return err
		}
		c.who = who
		if err := count(c); err != nil {
			return err
		}
		if !who.Role.Allows(need) {
			return problem.New(problem.Forbidden, fmt.Sprintf("This needs the role %s; yours is %s.", need, who.Role))
		}
		return h(c)
	}
}

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

func (s *Server) authenticate(c *request) (auth.Principal, error) {
	r := c.Request
	credentials := r.Header.Values("Authorization")
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
func (s *Server) authenticateKey(c *request, secret string) (auth.Principal, error) {
	hash, ok := account.ParseSecret(secret)
	if !ok {
		return auth.Principal{}, errAPIKey
	}
	key, ok, err := s.apiKeys.Lookup(c.ctx(), hash, c)
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
	case method != http.MethodGet && method != http.MethodHead:
		return auth.Principal{}, errKeyReads
	}
	return auth.Principal{AccountID: key.AccountID, Plan: key.Plan, Role: account.Viewer}, nil
}

// ofUser lets h answer only those who have signed in: what it does is done by a user.
func ofUser(h handler) handler {
	return func(c *request) error {
		if c.who.UserID.IsZero() {
			return errKeyReads
		}
		return h(c)
	}
}

// reply answers 200 with v as JSON.
func (c *request) reply(v any) error { return c.replyStatus(http.StatusOK, v) }

func (c *request) replyStatus(status int, v any) error {
	var text bytes.Buffer
	if err := jsonEncoder(&text).Encode(v); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	c.Data(status, "application/json", bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	return nil
}

// jsonEncoder returns an encoder that leaves <, > and & as they are: no response is a part of an HTML page.
func jsonEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
