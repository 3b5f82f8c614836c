package rest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// maxBodyBytes bounds the body of every request of this tier.
const maxBodyBytes = 64 << 10

// OptionalBody is body for a request that may come without any.
func (c *Request) OptionalBody(v any) error {
	// A body in chunks has the length -1 and is read.
	if c.Request.ContentLength == 0 {
		return nil
	}
	return c.Body(v)
}

// Body reads the request's JSON object into v. Unknown, repeated and differently
// spelled names are refused, whatever follows the object, and null but for the
// fields of nullable.
func (c *Request) Body(v any, nullable ...string) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	return ReadObject(text, v, nullable...)
}

// Text returns the request's body as it is.
func (c *Request) Text() ([]byte, error) {
	// Without the header the body is taken for JSON: curl -d sends a form's type, most libraries the right one.
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

// ReadObject reads a JSON object over v, in which only the fields of nullable may be null.
func ReadObject(text []byte, v any, nullable ...string) error {
	// Version 2 of the JSON package compares names exactly and refuses repeated ones and text that is not UTF-8.
	if err := json.Unmarshal(text, v, json.RejectUnknownMembers(true)); err != nil {
		return problem.FromFaults(schema.Faults{bodyFault(err)})
	}
	faults, object := nulls(text, nullable)
	if !object {
		return problem.FromFaults(schema.Faults{{Field: "body", Message: "must be one JSON object"}})
	}
	return Invalid(faults)
}

// nulls returns the fields of a JSON object that are null and must not be: a program whose variable is unset sends them,
// and means neither nothing nor all. object is false for null itself.
func nulls(text []byte, nullable []string) (faults schema.Faults, object bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return faults, object // The end: the text was read before.
		}
		if decoder.StackDepth() == 0 {
			object = token.Kind() != 'n'
			continue
		}
		field := fieldOf(decoder.StackPointer())
		if token.Kind() == 'n' && !slices.Contains(nullable, field) {
			faults.Add(field, "must not be null: leave it out, or give a value")
		}
	}
}

// bodyFault names the field that an error of the decoder is about.
func bodyFault(err error) schema.Fault {
	// Anything else is an error of syntax, which has a place and no field.
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return schema.Fault{Field: "body", Message: "must be one JSON object"}
	}
	field := fieldOf(semantic.JSONPointer)
	if errors.Is(semantic.Err, json.ErrUnknownName) {
		return schema.Fault{Field: field, Message: "is not a field of this request"}
	}
	return schema.Fault{Field: field, Message: "is not of the right type"}
}

// fieldOf writes a JSON pointer as clients write a field: "condition.value", "channels[0].url".
func fieldOf(pointer jsontext.Pointer) string {
	field := ""
	for name := range pointer.Tokens() {
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			field += "[" + name + "]"
		case field == "":
			field = name
		default:
			field += "." + name
		}
	}
	return cmp.Or(field, "body")
}
