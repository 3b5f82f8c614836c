// Package problem is how every tier says no: an error code, its HTTP status and
// title, and the application/problem+json body of RFC 9457. A handler returns a
// *Problem; any other error becomes "internal", so that no error of a library
// ever reaches a client.
package problem

import (
	"strconv"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Code is the stable, machine-readable name of an error.
type Code string

// The codes, in the order of their status.
const (
	BadRequest           Code = "bad_request"
	Unauthorized         Code = "unauthorized"
	BudgetExceeded       Code = "budget_exceeded"
	Forbidden            Code = "forbidden"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	Conflict             Code = "conflict"
	TooLarge             Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	Invalid              Code = "validation_error"
	RateLimited          Code = "rate_limited"
	HeaderTooLarge       Code = "header_too_large"
	Internal             Code = "internal"
)

// statuses is the one table of code, HTTP status and title. The titles of 401,
// 402, 422, 429 and 500 are the error names of the interface specification.
var statuses = []struct {
	code   Code
	status int
	title  string
}{
	{BadRequest, 400, "Bad request"},
	{Unauthorized, 401, "Unauthorized"},
	{BudgetExceeded, 402, "Budget cap exceeded"},
	{Forbidden, 403, "Forbidden"},
	{NotFound, 404, "Not found"},
	{MethodNotAllowed, 405, "Method not allowed"},
	{Conflict, 409, "Conflict"},
	{TooLarge, 413, "Payload too large"},
	{UnsupportedMediaType, 415, "Unsupported media type"},
	{Invalid, 422, "Validation error"},
	{RateLimited, 429, "Rate limited"},
	{HeaderTooLarge, 431, "Request header fields too large"},
	{Internal, 500, "Server error"},
}

// Status returns the HTTP status of c; an unknown code is 500.
func (c Code) Status() int {
	for _, s := range statuses {
		if s.code == c {
			return s.status
		}
	}
	return 500
}

// Title returns the error name of c.
func (c Code) Title() string {
	for _, s := range statuses {
		if s.code == c {
			return s.title
		}
	}
	return "Server error"
}

// Problem is an error that a client may see.
type Problem struct {
	Code Code
	// Detail is one or two plain sentences: what is wrong and how to fix it.
	Detail string
	// Faults lists what is wrong with single fields, for Invalid.
	Faults schema.Faults
	// RetryAfter is how long a client should wait, for RateLimited and
	// Internal. It is sent in whole seconds, rounded up; 0 stands for one.
	RetryAfter time.Duration
}

// Error makes *Problem an error; the text is for logs.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// New returns a Problem without faults.
func New(code Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

// FromFaults returns the Invalid problem that lists faults, of which there is at least
// one.
func FromFaults(faults schema.Faults) *Problem {
	// Many clients show nothing but the detail: it names the first one.
	detail := faults[0].Field + " " + faults[0].Message + "."
	if n := len(faults) - 1; n > 0 {
		detail += " " + strconv.Itoa(n) + " more in errors."
	}
	return &Problem{Code: Invalid, Detail: detail, Faults: faults}
}
