// Package otlp turns the spans of an OTLP trace export into model calls. It
// follows OpenTelemetry's GenAI conventions, under their current and former
// names, and decides which spans are calls: those that only wrap other calls
// would count the same tokens twice. It is a pure conversion; validation, price
// and caps are left to ingest, which treats a call like any other event.
package otlp

import (
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Call is a call of a model as its span has it. The texts are as they were
// sent: too long, empty or with control characters, if the sender chose so.
type Call struct {
	// Key names the span among all spans: trace id and span id in hex. It is the
	// idempotency key, so an export that is sent again is recorded once.
	Key string
	// ParentKey is the Key of the call inside of which this one was made, if
	// both are in the same request, else empty.
	ParentKey string

	Agent, Provider, Model string
	// SessionID is the conversation, or the trace when the span names none.
	SessionID string
	// Step is the kind of operation, such as "chat".
	Step string
	// Failed says that the span ended in an error; ErrorType may still be empty.
	Failed    bool
	ErrorType string

	// Start is the zero time and LatencyMS schema.NoLatency when not known.
	Start     time.Time
	LatencyMS int64

	// Input holds the cached tokens and Output the reasoning tokens, as the
	// conventions have it.
	Input, Output         Count
	CacheRead, CacheWrite Count
	Reasoning             Count

	// Faults are what shows in the span alone: counts that are none, no ids.
	Faults schema.Faults
}

// Count is a number of tokens. It was given when it has a name, which is the
// attribute's.
type Count struct {
	Value int64
	Name  string
}

// Export is what one request holds.
type Export struct {
	// Calls are in the order of the request.
	Calls []Call
	// Wrappers are the GenAI spans that are no call of a model, or whose usage is
	// that of the calls inside of them. Others are the spans that have nothing to
	// do with models. Both are left out.
	Wrappers, Others int
}

// Spans returns how many spans the request had.
func (e Export) Spans() int { return len(e.Calls) + e.Wrappers + e.Others }

// usage is what a wrapper and the calls inside of it have in common.
type usage struct{ input, output int64 }

func (c *Call) usage() usage { return usage{c.Input.Value, c.Output.Value} }

// hasUsage reports whether the span has any tokens.
func (c *Call) hasUsage() bool { return c.usage() != usage{} }

// includeParts adds parts that are larger than their total to it, because they cannot be
// included in it: some instrumentations pass on the counts of providers that count so,
// against the conventions.
func (c *Call) includeParts() {
	if cached := c.CacheRead.Value + c.CacheWrite.Value; cached > c.Input.Value {
		c.Input.add(cached, c.CacheRead, c.CacheWrite)
	}
	if c.Reasoning.Value > c.Output.Value {
		c.Output.add(c.Reasoning.Value, c.Reasoning)
	}
}

// add adds n tokens, which the parts add up to, unless the sum is beyond what a count
// may be; then validation finds the parts larger than their total.
func (c *Count) add(n int64, parts ...Count) {
	if c.Value+n > schema.MaxCount {
		return
	}
	c.Value += n
	for _, part := range parts {
		if c.Name == "" {
			c.Name = part.Name
		}
	}
}
