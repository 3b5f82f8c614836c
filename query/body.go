package query

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// maxBodyBytes bounds the body of every request of this tier.
const maxBodyBytes = 64 << 10

// optionalBody is body for a request that may come without any.
func (c *call) optionalBody(v any) error {
	if c.Request.ContentLength == 0 {
		return nil
	}
	return c.body(v)
}

// body reads the request's JSON object into v. Unknown, repeated and differently
// spelled names are refused, and whatever follows the object.
func (c *call) body(v any) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	return readObject(text, v)
}

// text returns the request's body as it is.
func (c *call) text() ([]byte, error) {
	if kind := c.GetHeader("Content-Type"); kind != "" {
		media, _, err := mime.ParseMediaType(kind)
		if err != nil || media != "application/json" {
			return nil, problem.New(problem.UnsupportedMediaType, "Send the body as application/json.")
		}
		if schema.OtherCharset(kind) {
			return nil, problem.New(problem.UnsupportedMediaType, "Send the body in UTF-8: leave charset out of Content-Type, or make it utf-8.")
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBodyBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, problem.New(problem.TooLarge, "The body may have 64 KiB.")
		}
		return nil, problem.New(problem.BadRequest, "The body did not arrive whole.")
	}
	// A byte order mark is no part of the text.
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// readObject reads a JSON object over v.
func readObject(text []byte, v any) error {
	if err := json.Unmarshal(text, v, json.RejectUnknownMembers(true)); err != nil {
		return problem.FromFaults(schema.Faults{bodyFault(err)})
	}
	return nil
}

// bodyFault names the field that an error of the decoder is about.
func bodyFault(err error) fault {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fault{Field: "body", Message: "must be one JSON object"}
	}
	field := fieldOf(semantic.JSONPointer)
	if errors.Is(semantic.Err, json.ErrUnknownName) {
		return fault{Field: field, Message: "is not a field of this request"}
	}
	return fault{Field: field, Message: "is not of the right type"}
}

// fieldOf writes a JSON pointer as clients write a field: "condition.value".
func fieldOf(pointer jsontext.Pointer) string {
	var names []string
	for name := range pointer.Tokens() {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "body"
	}
	return strings.Join(names, ".")
}
