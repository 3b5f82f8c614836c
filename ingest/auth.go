package ingest

import (
	"net/http"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// authenticate returns whom the request's API key stands for.
func (s *Server) authenticate(r *http.Request) (account.Credential, error) {
	secret, err := bearer(r)
	if err != nil {
		return account.Credential{}, err
	}
	hash, ok := account.ParseSecret(secret)
	if !ok {
		return account.Credential{}, problem.New(problem.Unauthorized,
			"This is not an API key: one starts with "+account.KeyPrefix+" and has 48 characters. Check that it was copied whole.")
	}
	c, ok, err := s.keys.Lookup(r.Context(), hash)
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
	return c, nil
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

// requestID returns the caller's own X-Request-Id if it is 1-128 visible ASCII
// characters, else a new one.
func requestID(r *http.Request, now func() time.Time) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 {
		return schema.NewID(now()).Text("req")
	}
	for i := range len(id) {
		if id[i] <= 0x20 || id[i] > 0x7e {
			return schema.NewID(now()).Text("req")
		}
	}
	return id
}
