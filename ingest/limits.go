package ingest

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// Limits counts the events of accounts against their plans; limit.Limiter is the
// real one.
type Limits interface {
	// Take takes n events out of the present window, all or none.
	Take(account schema.ID, plan account.Plan, n int64) limit.Standing
	// Return gives back events that were taken just before.
	Return(account schema.ID, n int64)
}

// Checks counts budget checks of accounts; limit.Checks is the real one.
type Checks interface {
	Take(account schema.ID, plan account.Plan) limit.Standing
}

// limit takes the first event of a request out of what the account's plan allows,
// before the body is read, so that a flood is cheap to refuse. Every answer after
// it carries the X-RateLimit headers.
func (s *Server) limit(c *gin.Context, who account.Credential) error {
	if standing := s.takeRate(c, who, 1); !standing.Allowed {
		return rateLimited(standing)
	}
	return nil
}

// limitRest takes the other events of a request with n events, once they are
// counted. If they do not fit, the request is refused as a whole and the first one
// is given back.
func (s *Server) limitRest(c *gin.Context, who account.Credential, n int) error {
	if n <= 1 {
		return nil
	}
	standing := s.takeRate(c, who, int64(n-1))
	if standing.Allowed {
		return nil
	}
	s.limits.Return(who.AccountID, 1)
	standing.Remaining++
	setRateHeaders(c.Writer, standing)
	if int64(n) > standing.Limit {
		// No window will ever have room for it: waiting does not help.
		return problem.New(problem.Invalid, fmt.Sprintf(
			"The plan of the account allows %d events a minute, so one request cannot hold %d. Send them in several.", standing.Limit, n))
	}
	return rateLimited(standing)
}

func (s *Server) takeRate(c *gin.Context, who account.Credential, n int64) limit.Standing {
	standing := s.limits.Take(who.AccountID, who.Plan, n)
	setRateHeaders(c.Writer, standing)
	return standing
}

func rateLimited(s limit.Standing) error {
	return &problem.Problem{
		Code: problem.RateLimited,
		Detail: fmt.Sprintf("The plan of the account allows %d events a minute, and there are not enough left in this one. "+
			"Send the request again after the seconds in Retry-After, or change the plan.", s.Limit),
		RetryAfter: s.RetryAfter,
	}
}

// limitCheck counts a budget check, which uses up nothing of what the account may
// send.
func (s *Server) limitCheck(c *gin.Context, who account.Credential) error {
	standing := s.checks.Take(who.AccountID, who.Plan)
	setRateHeaders(c.Writer, standing)
	if standing.Allowed {
		return nil
	}
	return &problem.Problem{
		Code:       problem.RateLimited,
		Detail:     fmt.Sprintf("The plan of the account allows %d budget checks a minute. Send the request again after the seconds in Retry-After.", standing.Limit),
		RetryAfter: standing.RetryAfter,
	}
}

// setRateHeaders spells the names as they are documented, which Header.Set would not do.
func setRateHeaders(w http.ResponseWriter, s limit.Standing) {
	values := &[3]string{strconv.FormatInt(s.Limit, 10), strconv.FormatInt(s.Remaining, 10), strconv.FormatInt(s.Reset, 10)}
	h := w.Header()
	h["X-RateLimit-Limit"] = values[0:1:1]
	h["X-RateLimit-Remaining"] = values[1:2:2]
	h["X-RateLimit-Reset"] = values[2:3:3]
}
