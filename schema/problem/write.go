package problem

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/outlayhq/outlay/schema"
)

// body is the JSON form, RFC 9457 with our extensions code, request_id, errors.
type body struct {
	Type      string        `json:"type"`
	Title     string        `json:"title"`
	Status    int           `json:"status"`
	Detail    string        `json:"detail"`
	Code      Code          `json:"code"`
	RequestID string        `json:"request_id,omitempty"`
	Errors    schema.Faults `json:"errors,omitempty"`
}

// From returns the Problem that a client sees of err: err itself when it is or
// wraps one, else Internal without any detail of err.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return New(Internal, "Something went wrong on our side. Send the request again in a moment.")
}

// Write answers with the problem that From makes of err. 401 carries
// WWW-Authenticate, 429 and 500 carry Retry-After.
func Write(w http.ResponseWriter, requestID string, err error) {
	p := From(err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	status := p.Code.Status()
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusInternalServerError:
		h.Set("Retry-After", strconv.Itoa(p.RetrySeconds()))
	}
	text := p.JSON(requestID)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	// A client that hung up is no error of ours.
	_, _ = w.Write(text)
}

// RetrySeconds is RetryAfter as the header has it.
func (p *Problem) RetrySeconds() int {
	return max(1, int(math.Ceil(p.RetryAfter.Seconds())))
}

// JSON returns the problem+json text. An item of a batch has the request id of the
// batch.
func (p *Problem) JSON(requestID string) []byte {
	text, err := json.Marshal(body{
		Type:      "about:blank",
		Title:     p.Code.Title(),
		Status:    p.Code.Status(),
		Detail:    p.Detail,
		Code:      p.Code,
		RequestID: requestID,
		Errors:    p.Faults,
	})
	if err != nil {
		panic("BUG: a problem cannot be written as JSON: " + err.Error())
	}
	return text
}
