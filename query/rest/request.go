// Package rest holds what the handlers of the query tier share, and nothing that is about one resource: the request with
// its caller, its parameters and body, pages with cursors, responses as JSON and CSV, and the headers of every response.
// Handlers return errors; package query turns them into responses.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/query/auth"
)

// Request is one HTTP request on its way through a handler.
type Request struct {
	*gin.Context
	// Who asks; the zero Principal on an open endpoint.
	Who auth.Principal
}

// Ctx ends when the client goes away.
func (c *Request) Ctx() context.Context { return c.Request.Context() }

// Param returns what stands in the path in the place of :name, decoded.
func (c *Request) Param(name string) string {
	text, err := url.PathUnescape(c.Context.Param(name))
	if err != nil {
		panic("BUG: a path that was parsed cannot be decoded: " + err.Error())
	}
	return text
}

// Reply answers 200 with v as JSON.
func (c *Request) Reply(v any) error { return c.ReplyStatus(http.StatusOK, v) }

// ReplyStatus answers v as JSON. Nothing is written when v cannot be encoded.
func (c *Request) ReplyStatus(status int, v any) error {
	var text bytes.Buffer
	if err := JSONEncoder(&text).Encode(v); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	c.Data(status, "application/json", bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	return nil
}

// JSONEncoder returns an encoder that leaves <, > and & as they are: no response is a part of an HTML page.
func JSONEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
