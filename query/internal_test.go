package query

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema/account"
)

// EmptyPath is an endpoint of benchmarks that answers nothing to those who may read:
// what every endpoint costs before it does anything.
const EmptyPath = "/benchmark/empty"

// AddEmpty adds the endpoint. No request may be under way.
func (s *Server) AddEmpty() {
	s.engine.Handle(http.MethodGet, EmptyPath, s.adapt(s.allow(account.Viewer, func(c *rest.Request) error { return c.Reply(struct{}{}) })))
}

// Routes returns what the router answers.
func (s *Server) Routes() gin.RoutesInfo { return s.engine.Routes() }
