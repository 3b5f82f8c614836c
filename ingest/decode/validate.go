package decode

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// validate normalises the fields and returns a problem that lists the given field errors and those that show only once
// every field was read. It does not matter whether JSON or a span was read.
func (r *Request) validate(errs schema.Faults) error {
	r.check(&errs)
	return problemOf(errs)
}

// problemOf returns the response to field errors, or nil without any.
func problemOf(errs schema.Faults) error {
	if len(errs) == 0 {
		return nil
	}
	return problem.FromFaults(errs)
}

func (r *Request) check(errs *schema.Faults) {
	r.checkNames(errs)
	r.sessionID.checkName("session_id", errs)
	r.step.checkName("step", errs)
	r.userID.checkName("user_id", errs)
	errs.CheckText("error_type", r.errorType.value, schema.MaxNameLength)
	for i, tag := range r.tags {
		r.tags[i] = schema.NormalName(tag)
	}
	r.checkKey(errs)
	choice("status", r.status, errs, "ok", "error")
	choice("token_accounting", r.accounting, errs, "inclusive", "exclusive")
	r.parseParent(errs)
	r.parseTime(errs)
	errs.CheckTags("tags", r.tags)
	sameCount("input_tokens", &r.input, r.prompt, errs)
	sameCount("output_tokens", &r.output, r.completion, errs)
	r.applyUsage(errs)
}

// checkNames normalises agent, model and provider, and adds what is wrong with them.
func (r *Request) checkNames(errs *schema.Faults) {
	r.agent.value = trimSpaces(r.agent.value)
	r.model.value = trimSpaces(r.model.value)
	r.provider.value = trimSpaces(r.provider.value)
	r.agent.checkName("agent", errs)
	r.model.checkName("model", errs)
	r.provider.checkName("provider", errs)
	if r.agent.value == "" && !errs.Has("agent") {
		errs.Add("agent", "is required")
	}
}

// checkName normalises a name, and adds what is wrong with it.
func (t *optionalText) checkName(field string, errs *schema.Faults) {
	t.value = schema.NormalName(t.value)
	errs.CheckName(field, t.value, schema.MaxNameLength)
}

// trimSpaces trims spaces of all kinds.
func trimSpaces(text string) string {
	if text == "" || edge(text[0]) && edge(text[len(text)-1]) {
		return text
	}
	return strings.TrimFunc(text, func(c rune) bool { return unicode.Is(unicode.Zs, c) })
}

// edge reports whether c is certainly neither a space nor a byte of one.
func edge(c byte) bool { return c > ' ' && c < utf8.RuneSelf }

// checkKey refuses an empty idempotency key: its sender believes that retries
// are safe.
func (r *Request) checkKey(errs *schema.Faults) {
	if r.idempotencyKey.given && r.idempotencyKey.value == "" {
		errs.Add("idempotency_key", "must have 1 to 255 characters")
		return
	}
	errs.CheckText("idempotency_key", r.idempotencyKey.value, schema.MaxIdempotencyKeyLength)
}

func choice(field string, t optionalText, errs *schema.Faults, choices ...string) {
	if t.value == "" {
		return
	}
	for _, c := range choices {
		if t.value == c {
			return
		}
	}
	errs.Add(field, `must be "`+strings.Join(choices, `" or "`)+`"`)
}

func (r *Request) parseParent(errs *schema.Faults) {
	if r.parent.value == "" {
		return
	}
	id, err := schema.ParseID(schema.EventPrefix, r.parent.value)
	if err != nil {
		errs.Add("parent_event_id", "must be an event_id that Outlay has answered, such as evt_…")
		return
	}
	r.parentID = id
}

func (r *Request) parseTime(errs *schema.Faults) {
	if r.timestamp.value == "" {
		return
	}
	t, err := schema.ParseTime(r.timestamp.value)
	if err != nil {
		errs.Add("timestamp", "must be a time as RFC 3339 has it, such as 2026-01-02T15:04:05Z")
		return
	}
	r.time = t.UTC().Truncate(time.Microsecond)
}

// sameCount lets the other name of a count stand for it, but not contradict it.
func sameCount(field string, c *optionalCount, other optionalCount, errs *schema.Faults) {
	switch {
	case !other.given():
	case !c.given():
		*c = other
	case c.value != other.value:
		errs.Add(other.name, "must not differ from "+field)
	}
}

// KeyFromHeader uses the values of the header Idempotency-Key, if any, unless the body has a key; the two must not
// contradict each other.
func (r *Request) KeyFromHeader(values []string) error {
	if len(values) == 0 {
		return nil
	}
	header := optionalText{value: values[0], given: true}
	if len(values) > 1 || r.idempotencyKey.given && r.idempotencyKey != header {
		return problem.FromFaults(schema.Faults{{Field: "idempotency_key", Message: "must not differ from the header Idempotency-Key, which may be there once"}})
	}
	r.idempotencyKey = header
	var errs schema.Faults
	r.checkKey(&errs)
	return problemOf(errs)
}
