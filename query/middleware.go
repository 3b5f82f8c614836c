package query

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/outlayhq/outlay/schema/problem"
)

const requestIDHeader = "X-Request-Id"

// identify gives the request an id, the caller's own if it is fit to be shown, and
// repeats it in the answer.
func identify(c *gin.Context) {
	id := c.GetHeader(requestIDHeader)
	if !visibleASCII(id) {
		id = newRequestID()
	}
	c.Header(requestIDHeader, id)
	c.Set(requestIDHeader, id)
}

func requestID(c *gin.Context) string { return c.GetString(requestIDHeader) }

// visibleASCII reports whether text is 1 to 128 visible ASCII characters.
func visibleASCII(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= 128
}

func newRequestID() string {
	var id [15]byte
	// rand.Read never fails: since Go 1.24 it ends the program instead.
	_, _ = rand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// secure sets the headers that every answer has. A page that needs more sets its
// own Content-Security-Policy. A body in chunks is the last of its connection: one
// that has a length as well may hide another request from a proxy (RFC 9112, section
// 6.1), and net/http does not report it.
func secure(c *gin.Context) {
	h := c.Writer.Header()
	if c.Request.TransferEncoding != nil {
		h.Set("Connection", "close")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

// measure counts the request once it is answered.
func (s *Server) measure(c *gin.Context) {
	start := s.now()
	// Deferred, because an answer that breaks off does so by a panic.
	defer func() { s.metrics.observe(c.FullPath(), c.Writer.Status(), s.now().Sub(start)) }()
	c.Next()
}

// rescue turns a panic into a 500, or into a broken connection when the answer
// has begun.
func (s *Server) rescue(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		s.log.ErrorContext(c.Request.Context(), "request panicked", "panic", p, "route", c.FullPath(),
			"request_id", requestID(c), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		problem.Write(c.Writer, requestID(c), errPanicked)
		c.Abort()
	}()
	c.Next()
}

var errPanicked = errors.New("panicked")
