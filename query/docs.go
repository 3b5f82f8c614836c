package query

import (
	"net/http"

	"github.com/outlayhq/outlay/query/docs"
	"github.com/outlayhq/outlay/query/rest"
)

// docsPolicy lets the page load its own style sheet and nothing else.
const docsPolicy = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// docsPage answers the description of the interface for people.
func (s *Server) docsPage(c *rest.Request) error {
	c.Header("Content-Security-Policy", docsPolicy)
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "text/html; charset=utf-8", s.docs)
	return nil
}

// docsStyle answers the style sheet of the page: the policy forbids styles within it.
func (s *Server) docsStyle(c *rest.Request) error {
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "text/css; charset=utf-8", docs.Style())
	return nil
}
