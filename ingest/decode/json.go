package decode

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

// RequestFromJSON reads the one event that text holds into r, which was reset. The error is a problem that lists every
// field error; text that is not JSON has one error only. Nothing in r refers to text afterwards.
func RequestFromJSON(r *Request, text []byte) error {
	errs, err := readObject(text, r, (*decoder).field)
	if err != nil {
		return err
	}
	return r.validate(errs)
}

// decoder reads the fields of one event. Methods return errors of JSON syntax, which end the reading; field errors are
// collected.
type decoder struct {
	json    *jsontext.Decoder
	input   bytes.Buffer
	request *Request
	errs    schema.Faults
	// unknownNames counts the names of the event that no field has.
	unknownNames int
	scratch      []byte // of texts with escapes
}

var decoders = sync.Pool{New: func() any { return &decoder{json: jsontext.NewDecoder(new(bytes.Buffer))} }}

// readObject reads a text that holds one JSON object and calls member at the value of each of its names.
func readObject(text []byte, r *Request, member func(*decoder, []byte) error) (schema.Faults, error) {
	d := decoders.Get().(*decoder)
	d.input, d.request, d.errs, d.unknownNames = *bytes.NewBuffer(text), r, nil, 0
	defer func() {
		d.input, d.request = bytes.Buffer{}, nil
		decoders.Put(d)
	}()
	// The strict defaults stay in force: invalid UTF-8, lone surrogates and duplicate names are errors, and names are
	// matched exactly.
	d.json.Reset(&d.input)
	if d.json.PeekKind() != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return nil, syntaxProblem(err)
		}
		return nil, problem.New(problem.Invalid, `The body must be a JSON object such as {"agent":"my-agent"}.`)
	}
	if err := d.members(func(name []byte) error { return member(d, name) }); err != nil {
		return nil, syntaxProblem(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, problem.New(problem.Invalid, "The body must hold one JSON object and nothing after it.")
	}
	return d.errs, nil
}

// members reads an object that comes next. It calls member with each name, which is valid until the value is read;
// member has to read that.
func (d *decoder) members(member func(name []byte) error) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		if err := member(d.unquote(raw)); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// elements reads an array that comes next and calls element at each of its elements.
func (d *decoder) elements(element func() error) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// syntaxProblem is the response to an error of jsontext.
func syntaxProblem(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
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

// field reads the value of the named field. Both endpoints know both names of the token fields: the usage of a client
// that mixes them up would otherwise be ignored. A name that is not known is passed over, because clients are many and
// of all ages.
func (d *decoder) field(name []byte) error {
	r := d.request
	switch string(name) {
	case "agent":
		return d.text("agent", &r.agent)
	case "model":
		return d.text("model", &r.model)
	case "provider":
		return d.text("provider", &r.provider)
	case "session_id":
		return d.text("session_id", &r.sessionID)
	case "idempotency_key":
		return d.text("idempotency_key", &r.idempotencyKey)
	case "status":
		return d.text("status", &r.status)
	case "error_type":
		return d.text("error_type", &r.errorType)
	case "step":
		return d.text("step", &r.step)
	case "parent_event_id":
		return d.text("parent_event_id", &r.parent)
	case "user_id":
		return d.text("user_id", &r.userID)
	case "token_accounting":
		return d.text("token_accounting", &r.accounting)
	case "timestamp":
		return d.text("timestamp", &r.timestamp)
	case "input_tokens":
		return d.count("input_tokens", &r.input)
	case "output_tokens":
		return d.count("output_tokens", &r.output)
	case "prompt_tokens":
		return d.count("prompt_tokens", &r.prompt)
	case "completion_tokens":
		return d.count("completion_tokens", &r.completion)
	case "cache_read_tokens":
		return d.count("cache_read_tokens", &r.cacheRead)
	case "cache_write_tokens":
		return d.count("cache_write_tokens", &r.cacheWrite)
	case "cache_write_1h_tokens":
		return d.count("cache_write_1h_tokens", &r.cacheHour)
	case "reasoning_tokens":
		return d.count("reasoning_tokens", &r.reasoning)
	case "latency_ms":
		return d.count("latency_ms", &r.latency)
	case "cost_usd":
		return d.cost()
	case "tags":
		return d.tags()
	case "metadata":
		return d.metadata()
	case "usage":
		return d.usage()
	}
	d.unknown(string(name))
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
		dst.value, dst.given = d.request.arena.text("", d.unquote(raw)), true
	default:
		d.errs.Add(name, "must be a string")
	}
	return nil
}

// unquote returns the text of a valid JSON string, until the next call.
func (d *decoder) unquote(raw jsontext.Value) []byte {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, err := jsontext.AppendUnquote(d.scratch[:0], raw)
	if err != nil {
		panic("BUG: a valid JSON string cannot be unquoted: " + err.Error())
	}
	if cap(text) <= maxKept {
		d.scratch = text
	}
	return text
}

func (d *decoder) count(name string, dst *optionalCount) error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	n, ok := parseCount(raw)
	if !ok {
		d.errs.Add(name, schema.CountFault)
		return nil
	}
	*dst = optionalCount{value: n, name: name}
	return nil
}

func parseCount(raw jsontext.Value) (n int64, ok bool) {
	if raw.Kind() != '0' {
		return 0, false
	}
	return schema.ParseCount(string(raw))
}

func (d *decoder) cost() error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	if raw.Kind() != '0' {
		d.errs.Add("cost_usd", schema.ErrNotAmount.Error())
		return nil
	}
	cost, err := schema.ParseUSD(string(raw))
	if err != nil {
		d.errs.Add("cost_usd", err.Error())
		return nil
	}
	d.request.cost, d.request.costGiven = cost, true
	return nil
}

func (d *decoder) tags() error {
	if kind := d.json.PeekKind(); kind != '[' {
		if kind != 'n' {
			d.errs.Add("tags", "must be an array of strings")
		}
		return d.json.SkipValue()
	}
	a := &d.request.arena
	start := len(a.tags)
	defer func() { d.request.tags = a.tags[start:len(a.tags):len(a.tags)] }()
	return d.elements(func() error {
		raw, err := d.json.ReadValue()
		switch {
		case err != nil:
			return err
		case raw.Kind() != '"':
			if !d.errs.Has("tags") {
				d.errs.Add("tags", "must be an array of strings")
			}
		case len(a.tags)-start <= schema.MaxTags: // One too many is enough to refuse them.
			a.tags = append(a.tags, a.text("", d.unquote(raw)))
		}
		return nil
	})
}
