package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

// decode reads one event from a text that holds nothing else. The error is a
// problem that lists every fault; what is not JSON at all has just one.
func decode(text []byte, r *request) error {
	var faults schema.Faults
	if rest, ok := scan(text, r); !ok || len(rest) > 0 {
		r.next()
		var err error
		if faults, err = decodeStrictly(text, r); err != nil {
			return err
		}
	}
	return r.finish(faults)
}

// decodeStrictly reads whatever the interface allows and finds fault with the
// rest.
func decodeStrictly(text []byte, r *request) (schema.Faults, error) {
	d := decoder{json: decoders.Get().(*jsontext.Decoder), body: text, request: r}
	defer decoders.Put(d.json)
	// The strict defaults stay in force: invalid UTF-8, lone surrogates and
	// duplicate names are errors, names are matched to the letter.
	d.json.Reset(bytes.NewBuffer(text))
	if err := d.object(); err != nil {
		return nil, syntaxProblem(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, problem.New(problem.Invalid, "The body must hold one JSON object and nothing after it.")
	}
	return d.faults, nil
}

var errNotObject = errors.New("not an object")

func syntaxProblem(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, errNotObject):
		return problem.New(problem.Invalid, `The body must be a JSON object such as {"agent":"my-agent"}.`)
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return problem.FromFaults(schema.Faults{{Field: fieldOf(syntax.JSONPointer), Message: "must not be given twice"}})
	case errors.As(err, &syntax):
		return problem.New(problem.Invalid, fmt.Sprintf("The body is not valid JSON: %v at byte %d.", syntax.Err, syntax.ByteOffset))
	}
	return problem.New(problem.Invalid, "The body is not valid JSON: it ends too early.")
}

// fieldOf writes a JSON pointer such as "/metadata/a" as "metadata.a".
func fieldOf(p jsontext.Pointer) string {
	var field []byte
	for token := range p.Tokens() {
		if len(field) > 0 {
			field = append(field, '.')
		}
		field = append(field, token...)
	}
	return string(bytes.ToValidUTF8(field, nil))
}

// decoder reads the fields of one event. Errors are of JSON's syntax and end
// the reading; faults are collected.
type decoder struct {
	json    *jsontext.Decoder
	body    []byte
	request *request
	faults  schema.Faults
	// unknownNames is how many names of the event are those of no field.
	unknownNames int
}

func (d *decoder) object() error {
	if d.json.PeekKind() != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return err
		}
		return errNotObject
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		name, err := d.name()
		if err != nil {
			return err
		}
		if err := d.field(name); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// name reads a field name. Known names come back as constants, so that the
// common case allocates nothing.
func (d *decoder) name() (string, error) {
	raw, err := d.json.ReadValue()
	if err != nil {
		return "", err
	}
	if len(raw) >= 2 && raw[0] == '"' {
		if name := knownField(raw[1 : len(raw)-1]); name != "" {
			return name, nil
		}
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	name := knownField(text)
	if name == "" && err == nil {
		d.unknown(string(text))
	}
	return name, err
}

// field reads the value of the named field; "" is a field that we do not know
// and pass over, as clients are many and of all ages.
func (d *decoder) field(name string) error {
	r := d.request
	switch name {
	case "agent":
		return d.text(name, &r.agent)
	case "model":
		return d.text(name, &r.model)
	case "provider":
		return d.text(name, &r.provider)
	case "session_id":
		return d.text(name, &r.sessionID)
	case "idempotency_key":
		return d.text(name, &r.idempotencyKey)
	case "status":
		return d.text(name, &r.status)
	case "error_type":
		return d.text(name, &r.errorType)
	case "step":
		return d.text(name, &r.step)
	case "parent_event_id":
		return d.text(name, &r.parent)
	case "user_id":
		return d.text(name, &r.userID)
	case "token_accounting":
		return d.text(name, &r.accounting)
	case "timestamp":
		return d.text(name, &r.timestamp)
	case "cost_usd":
		return d.cost()
	case "tags":
		return d.tags()
	case "metadata":
		return d.metadata()
	case "usage":
		return d.usage()
	}
	if count := r.countField(name); count != nil {
		return d.count(name, count)
	}
	return d.json.SkipValue()
}

// text reads a string. null is the same as leaving the field out.
func (d *decoder) text(name string, dst *optionalText) error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case 'n':
	case '"':
		dst.value, dst.given = unquote(raw), true
	default:
		d.faults.Add(name, "must be a string")
	}
	return nil
}

// unquote returns the text of a JSON string that is known to be valid.
func unquote(raw jsontext.Value) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		panic("BUG: a valid JSON string cannot be unquoted: " + err.Error())
	}
	return string(text)
}

func (d *decoder) count(name string, dst *optionalCount) error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case 'n':
	case '0':
		n, ok := schema.ParseCount(string(raw))
		if !ok {
			d.faults.Add(name, schema.CountFault)
			return nil
		}
		*dst = optionalCount{value: n, name: name}
	default:
		d.faults.Add(name, schema.CountFault)
	}
	return nil
}

func (d *decoder) cost() error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	if raw.Kind() != '0' {
		d.faults.Add("cost_usd", schema.ErrNotAmount.Error())
		return nil
	}
	cost, err := schema.ParseUSD(string(raw))
	if err != nil {
		d.faults.Add("cost_usd", err.Error())
		return nil
	}
	d.request.cost, d.request.costGiven = cost, true
	return nil
}

func (d *decoder) tags() error {
	if kind := d.json.PeekKind(); kind != '[' {
		if kind != 'n' {
			d.faults.Add("tags", "must be an array of strings")
		}
		return d.json.SkipValue()
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		switch {
		case raw.Kind() != '"':
			if !d.faults.Has("tags") {
				d.faults.Add("tags", "must be an array of strings")
			}
		case len(d.request.tags) <= schema.MaxTags:
			d.request.tags = append(d.request.tags, unquote(raw))
		}
	}
	_, err := d.json.ReadToken()
	return err
}
