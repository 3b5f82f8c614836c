package ingest

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// request is one event as a client sent it, before defaults and prices.
type request struct {
	agent, model, provider           optionalText
	sessionID, step, parent, userID  optionalText
	idempotencyKey                   optionalText
	status, errorType                optionalText
	timestamp, accounting            optionalText
	input, output                    optionalCount
	prompt, completion               optionalCount
	cacheRead, cacheWrite, cacheHour optionalCount
	reasoning, latency               optionalCount
	cost                             schema.NanoUSD
	costGiven                        bool
	reported                         *reportedUsage // of usage, nil without one
	tags                             []string
	metadata                         []byte
	// warnings are of unknown fields that resemble known ones.
	warnings schema.Faults
	// scanned says that scan read the event: agent, model, provider, sessionID, step,
	// userID, tags and errorType are normalised and without fault.
	scanned bool

	session  string    // schema.SessionID of sessionID, or "" as long as it is not known
	parentID schema.ID // of parent, set by finish
	time     time.Time // of timestamp, set by finish; zero without one

	// memory is of the texts, tags and metadata of this event and of those that
	// were read before into the same request.
	memory memory
}

// next empties r for another event. What it was read into before stays good.
func (r *request) next() {
	kept := r.memory
	*r = request{}
	r.memory = kept
}

type optionalText struct {
	value string
	given bool
}

// optionalCount was given when it has a name: the one the client used.
type optionalCount struct {
	value int64
	name  string
}

func (c optionalCount) given() bool { return c.name != "" }

// knownField returns name as a constant if it is a field of the interface, else
// "".
func knownField(name []byte) string {
	switch string(name) {
	case "agent":
		return "agent"
	case "model":
		return "model"
	case "provider":
		return "provider"
	case "input_tokens":
		return "input_tokens"
	case "output_tokens":
		return "output_tokens"
	case "prompt_tokens":
		return "prompt_tokens"
	case "completion_tokens":
		return "completion_tokens"
	case "cost_usd":
		return "cost_usd"
	case "session_id":
		return "session_id"
	case "latency_ms":
		return "latency_ms"
	case "metadata":
		return "metadata"
	case "timestamp":
		return "timestamp"
	case "cache_read_tokens":
		return "cache_read_tokens"
	case "cache_write_tokens":
		return "cache_write_tokens"
	case "cache_write_1h_tokens":
		return "cache_write_1h_tokens"
	case "reasoning_tokens":
		return "reasoning_tokens"
	case "token_accounting":
		return "token_accounting"
	case "status":
		return "status"
	case "error_type":
		return "error_type"
	case "step":
		return "step"
	case "parent_event_id":
		return "parent_event_id"
	case "user_id":
		return "user_id"
	case "tags":
		return "tags"
	case "idempotency_key":
		return "idempotency_key"
	case "usage":
		return "usage"
	}
	return ""
}

// countField returns where the named count is kept, or nil. Both endpoints know
// both names of the token fields: a client that mixes them up would otherwise
// have its usage ignored.
func (r *request) countField(name string) *optionalCount {
	switch name {
	case "input_tokens":
		return &r.input
	case "output_tokens":
		return &r.output
	case "prompt_tokens":
		return &r.prompt
	case "completion_tokens":
		return &r.completion
	case "cache_read_tokens":
		return &r.cacheRead
	case "cache_write_tokens":
		return &r.cacheWrite
	case "cache_write_1h_tokens":
		return &r.cacheHour
	case "reasoning_tokens":
		return &r.reasoning
	case "latency_ms":
		return &r.latency
	}
	return nil
}

// finish trims the names and returns a problem with all faults: those that are
// known already and those that show only once every field was read.
func (r *request) finish(faults schema.Faults) error {
	r.check(&faults)
	if len(faults) > 0 {
		return problem.FromFaults(faults)
	}
	return nil
}

func (r *request) check(faults *schema.Faults) {
	r.checkNames(faults)
	if !r.scanned {
		r.sessionID.checkName("session_id", faults)
		r.step.checkName("step", faults)
		r.userID.checkName("user_id", faults)
		faults.CheckText("error_type", r.errorType.value, schema.MaxNameLength)
		for i, tag := range r.tags {
			r.tags[i] = schema.NormalName(tag)
		}
	}
	r.checkKey(faults)
	r.choice("status", r.status, faults, "ok", "error")
	r.choice("token_accounting", r.accounting, faults, "inclusive", "exclusive")
	r.parseParent(faults)
	r.parseTime(faults)
	faults.CheckTags("tags", r.tags)
	sameCount("input_tokens", &r.input, r.prompt, faults)
	sameCount("output_tokens", &r.output, r.completion, faults)
	r.takeUsage(faults)
}

// checkNames trims the names, and notes what is wrong with them.
func (r *request) checkNames(faults *schema.Faults) {
	r.agent.value = trimSpaces(r.agent.value)
	r.model.value = trimSpaces(r.model.value)
	r.provider.value = trimSpaces(r.provider.value)
	if !r.scanned {
		r.agent.checkName("agent", faults)
		r.model.checkName("model", faults)
		r.provider.checkName("provider", faults)
	}
	if r.agent.value == "" && !faults.Has("agent") {
		faults.Add("agent", "is required")
	}
}

// checkName normalises a name, and notes what is wrong with it.
func (t *optionalText) checkName(field string, faults *schema.Faults) {
	t.value = schema.NormalName(t.value)
	faults.CheckName(field, t.value, schema.MaxNameLength)
}

// trimSpaces trims spaces of all kinds.
func trimSpaces(text string) string {
	if text == "" || edge(text[0]) && edge(text[len(text)-1]) {
		return text
	}
	return strings.TrimFunc(text, func(c rune) bool { return unicode.Is(unicode.Zs, c) })
}

// edge reports whether c is surely no space, nor a part of one.
func edge(c byte) bool { return c > ' ' && c < utf8.RuneSelf }

// checkKey refuses an empty idempotency key: its sender believes that retries
// are safe.
func (r *request) checkKey(faults *schema.Faults) {
	if r.idempotencyKey.given && r.idempotencyKey.value == "" {
		faults.Add("idempotency_key", "must have 1 to 255 characters")
		return
	}
	faults.CheckText("idempotency_key", r.idempotencyKey.value, schema.MaxIdempotencyKeyLength)
}

func (r *request) choice(field string, t optionalText, faults *schema.Faults, choices ...string) {
	if t.value == "" {
		return
	}
	for _, c := range choices {
		if t.value == c {
			return
		}
	}
	faults.Add(field, `must be "`+strings.Join(choices, `" or "`)+`"`)
}

func (r *request) parseParent(faults *schema.Faults) {
	if r.parent.value == "" {
		return
	}
	id, err := schema.ParseID(schema.EventPrefix, r.parent.value)
	if err != nil {
		faults.Add("parent_event_id", "must be an event_id that Outlay has answered, such as evt_…")
		return
	}
	r.parentID = id
}

func (r *request) parseTime(faults *schema.Faults) {
	if r.timestamp.value == "" {
		return
	}
	t, err := schema.ParseTime(r.timestamp.value)
	if err != nil {
		faults.Add("timestamp", "must be a time as RFC 3339 has it, such as 2026-01-02T15:04:05Z")
		return
	}
	r.time = t.UTC().Truncate(time.Microsecond)
}

// sameCount lets the other name of a count stand for it, but not contradict it.
func sameCount(field string, c *optionalCount, other optionalCount, faults *schema.Faults) {
	switch {
	case !other.given():
	case !c.given():
		*c = other
	case c.value != other.value:
		faults.Add(other.name, "must not differ from "+field)
	}
}
