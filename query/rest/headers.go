package rest

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/gin-gonic/gin"
)

const requestIDHeader = "X-Request-Id"

// Identify gives the request an id, the caller's own if it is fit to be shown, and
// repeats it in the answer.
func Identify(c *gin.Context) {
	id := c.GetHeader(requestIDHeader)
	if !visibleASCII(id) {
		id = newRequestID()
	}
	c.Header(requestIDHeader, id)
	c.Set(requestIDHeader, id)
}

// RequestID returns the id that Identify gave the request.
func RequestID(c *gin.Context) string { return c.GetString(requestIDHeader) }

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

// Secure sets the headers that every answer has. A page that needs more sets its
// own Content-Security-Policy. A body in chunks is the last of its connection: one
// that has a length as well may hide another request from a proxy (RFC 9112, section
// 6.1), and net/http does not report it.
func Secure(c *gin.Context) {
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
