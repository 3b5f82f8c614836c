package query

import (
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/httpserver"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/tariff"
)

// handler answers a request or returns why it does not.
type handler func(*rest.Request) error

// adapt is the one place where an error becomes an answer.
func (s *Server) adapt(h handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		err := h(&rest.Request{Context: g})
		if err == nil {
			return
		}
		s.report(g, err)
		if g.Writer.Written() {
			// Half an answer is worse than a broken connection.
			panic(http.ErrAbortHandler)
		}
		// A body that nobody read would keep the connection from being used again.
		httpserver.DiscardBody(g.Request)
		problem.Write(g.Writer, rest.RequestID(g), err)
	}
}

// report logs what an operator should see: errors that are ours.
func (s *Server) report(g *gin.Context, err error) {
	var p *problem.Problem
	// What the client did wrong is in the response, and in the counter by code.
	if errors.As(err, &p) && p.Code.Status() < http.StatusInternalServerError {
		return
	}
	ctx := g.Request.Context()
	// Nobody is there to get the response, and operators have nothing to do.
	if ctx.Err() != nil {
		s.log.DebugContext(ctx, "client went away", "route", g.FullPath(), "error", err)
		return
	}
	s.log.ErrorContext(ctx, "request failed", "route", g.FullPath(), "request_id", rest.RequestID(g), "error", err)
}

// rescue turns a panic into a 500, or into a broken connection when the answer
// has begun.
func (s *Server) rescue(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		// adapt, or net/http, has given up the connection on purpose: the server closes it without a word in the log.
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		s.log.ErrorContext(c.Request.Context(), "request panicked", "panic", p, "route", c.FullPath(),
			"request_id", rest.RequestID(c), "stack", string(debug.Stack()))
		// A second status line would become a part of the body.
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		problem.Write(c.Writer, rest.RequestID(c), errPanicked)
		c.Abort()
	}()
	c.Next()
}

// errPanicked is answered as an internal error; what the panic said stays in the log.
var errPanicked = errors.New("panicked")

// notThere is the same for what never existed and for what belongs to another account.
func notThere(what string) error {
	return problem.New(problem.NotFound, "There is no such "+what+" in this account.")
}

// storeError makes of an error of the store what a client may see.
func storeError(err error, what string) error {
	switch {
	case errors.Is(err, usage.ErrNotFound), errors.Is(err, account.ErrNotFound), errors.Is(err, job.ErrNotFound),
		errors.Is(err, report.ErrNotFound), errors.Is(err, tariff.ErrNotFound):
		return notThere(what)
	// It is a fault of the range, which is what a client can change most easily.
	case errors.Is(err, usage.ErrTooManyRows):
		return problem.FromFaults(schema.Faults{{Field: "from", Message: "gives more than 10000 rows: narrow from and to, group by less, filter, or send fill=false"}})
	// The same question may be answered in time when less is going on, hence Retry-After.
	case errors.Is(err, usage.ErrTimeout):
		return &problem.Problem{
			Code: problem.Internal, RetryAfter: 5 * time.Second,
			Detail: "The question took too long to answer. Narrow from and to, or ask again later.",
		}
	}
	return err
}
