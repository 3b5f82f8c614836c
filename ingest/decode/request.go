package decode

import (
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Request is one event as a client sent it, before defaults and price. The zero value is ready to be read into; Reset
// makes it ready for the next event.
type Request struct {
	fields
	// arena holds the texts, tags and metadata of this event and of those read before it.
	arena arena
}

// fields are what an event has, and what validation makes of it.
type fields struct {
	agent, model, provider           optionalText
	sessionID, step, parent, userID  optionalText
	idempotencyKey                   optionalText
	status, errorType                optionalText
	timestamp, accounting            optionalText
	input, output                    optionalCount
	prompt, completion               optionalCount // other names of input and output
	cacheRead, cacheWrite, cacheHour optionalCount
	reasoning, latency               optionalCount
	cost                             schema.NanoUSD
	costGiven                        bool
	reported                         *reportedUsage // of usage, nil without one
	tags                             []string
	metadata                         []byte
	// warnings are about unknown fields that resemble known ones.
	warnings schema.Faults

	parentID schema.ID // of parent, set by validate
	time     time.Time // of timestamp, set by validate; zero without one
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

// Reset makes r ready for another event. What earlier events refer to stays valid.
func (r *Request) Reset() { r.fields = fields{} }

// Release resets r and frees its arena, when no event that was read into it is in use any more. It reports whether r is
// small enough to be kept.
func (r *Request) Release() bool {
	r.Reset()
	return r.arena.clear()
}

// Agent returns the agent's name in normal form.
func (r *Request) Agent() string { return r.agent.value }

// Warnings returns what the client should learn of a recorded event: fields that were ignored.
func (r *Request) Warnings() schema.Faults { return r.warnings }
