package ingest

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// authenticate returns whom the request's API key stands for.
func (s *Server) authenticate(g *gin.Context) (account.Credential, error) {
	secret, err := bearer(g.Request)
	if err != nil {
		return account.Credential{}, err
	}
	hash, ok := account.ParseSecret(secret)
	if !ok {
		return account.Credential{}, problem.New(problem.Unauthorized,
			"This is not an API key: one starts with "+account.KeyPrefix+" and has 48 characters. Check that it was copied whole.")
	}
	c, ok, err := s.keys.Lookup(g.Request.Context(), hash, g)
	if errors.Is(err, account.ErrTooManyLookups) {
		return account.Credential{}, errTooManyKeys
	}
	if err != nil {
		return account.Credential{}, &problem.Problem{
			Code:       problem.Internal,
			Detail:     "The API key cannot be checked right now. Send the request again in a moment.",
			RetryAfter: 2 * time.Second,
		}
	}
	if !ok {
		return account.Credential{}, problem.New(problem.Unauthorized,
			"This API key does not exist, was revoked or has expired. Create a new one in the account settings.")
	}
	if !c.Allows(account.Track) {
		return account.Credential{}, errNotForTracking
	}
	return c, nil
}

// errTooManyKeys is the answer to a key that is not in memory, from a network that sent many that are not good. It may be a good one that was
// made just now, so it is not 401, which clients do not send again.
var errTooManyKeys = &problem.Problem{
	Code:       problem.RateLimited,
	Detail:     "Too many API keys that do not exist came from this network, and this one is not known yet. A key that was just made works within a second; any other should be checked.",
	RetryAfter: time.Second,
}

// errNotForTracking and errOtherAgent are what keys may not do; that they are good keys is no secret to who has them.
var (
	errNotForTracking = problem.New(problem.Forbidden,
		`This API key is for reading only. Create one with the scope "track" in the account settings.`)
	errOtherAgent = problem.New(problem.Forbidden,
		"This API key is bound to other agents. Use a key whose agents include this one, or create one in the account settings.")
)

// mayTrack returns why the key may not track the agent, or nil.
func mayTrack(key *account.Grant, agent string) error {
	if key.AllowsAgent(agent) {
		return nil
	}
	return errOtherAgent
}

// bearer returns the credential of the Authorization header.
func bearer(r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return "", problem.New(problem.Unauthorized, "Send one Authorization header; there are several.")
	}
	scheme, secret, found := strings.Cut(strings.Join(values, ""), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.New(problem.Unauthorized,
			"Send the API key in the header Authorization: Bearer "+account.KeyPrefix+"…")
	}
	return strings.TrimSpace(secret), nil
}

// requestID is how a request is called in its answer and in the log: as its sender calls
// it, or by an id that was made for it.
type requestID struct {
	own  string
	made schema.ID
}

// newRequestID takes the X-Request-Id of a request if it is 1-128 visible ASCII
// characters.
func newRequestID(r *http.Request, now func() time.Time) requestID {
	if own := r.Header.Get("X-Request-Id"); own != "" && len(own) <= 128 && isVisible(own) {
		return requestID{own: own}
	}
	return requestID{made: schema.NewID(now())}
}

func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}

// set gives the client the id.
func (id requestID) set(w http.ResponseWriter) {
	w.Header()["X-Request-Id"] = []string{id.String()}
}

const requestPrefix schema.Prefix = "req"

func (id requestID) String() string {
	if id.own != "" {
		return id.own
	}
	return id.made.Text(requestPrefix)
}
