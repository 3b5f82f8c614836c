package httpserver

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/outlayhq/outlay/schema/problem"
)

// listener gives net/http connections on which its own errors, such as 400 and 431, have
// the form of all others.
type listener struct{ net.Listener }

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return conn{tcp}, err
	}
	return c, err
}

type conn struct{ *net.TCPConn }

// Write writes p. net/http refuses by itself what it cannot read as a request: in plain
// text, and before a handler is called. Such a response is written as a problem with a
// request id instead.
func (c conn) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 4")) && !bytes.HasPrefix(p, []byte("HTTP/1.1 50")) {
		return c.TCPConn.Write(p)
	}
	status, rest, _ := bytes.Cut(p[len("HTTP/1.1 "):], []byte("\r\n"))
	expectation := bytes.HasPrefix(status, []byte("417 "))
	if !expectation && !bytes.HasPrefix(rest, []byte(unreadHeader)) {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(unread(string(status), expectation)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unreadHeader is the whole header of net/http's own errors; the response of a handler
// has a date as well.
const unreadHeader = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

func unread(status string, expectation bool) []byte {
	// The status line of a 400 may give the reason.
	p := problem.New(problem.BadRequest, "This is not a valid HTTP request: "+strings.TrimPrefix(status[4:], "Bad Request: ")+".")
	switch {
	case expectation:
		p.Detail = "The header Expect may only be 100-continue."
	case strings.HasPrefix(status, "431 "):
		p = problem.New(problem.HeaderTooLarge, "Request line and headers together are too large. Send fewer or shorter ones.")
	case status == "400 Bad Request":
		p.Detail = "This is not a valid HTTP request."
	}
	id := rand.Text()
	body := p.JSON(id)
	code := p.Code.Status()
	out := []byte("HTTP/1.1 " + strconv.Itoa(code) + " " + http.StatusText(code) +
		"\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nContent-Type: application/problem+json\r\nX-Request-Id: " + id + "\r\n\r\n")
	return append(out, body...)
}
