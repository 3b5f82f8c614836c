package otlp

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// span is what matters of a span, as it was sent.
type span struct {
	spanID
	parent [8]byte
	kind   spanKind
	failed bool
	// start and end are in nanoseconds since 1970, 0 when not given.
	start, end uint64
	attributes
	// texts is what the values refer to.
	texts []byte
	// genAI says that the span has any attribute of the GenAI conventions.
	genAI bool
}

// spanID names a span. Span ids are unique within their trace only.
type spanID struct {
	trace [16]byte
	span  [8]byte
}

// key is the id as text: trace id and span id in hex.
func (id spanID) key(keep *strings.Builder) string {
	var text [2*len(id.trace) + 1 + 2*len(id.span)]byte
	hex.Encode(text[:], id.trace[:])
	text[2*len(id.trace)] = '-'
	hex.Encode(text[2*len(id.trace)+1:], id.span[:])
	return stringOf(text[:], keep)
}

// spanKind is OTLP's number for the part that a span's sender had.
type spanKind int32

const (
	kindServer   spanKind = 2
	kindProducer spanKind = 4
	kindConsumer spanKind = 5
)

// statusError is OTLP's number for the status of a span that failed.
const statusError = 2

// attribute notes an attribute of the span.
func (s *span) attribute(name []byte, v value) {
	s.genAI = s.genAI || strings.HasPrefix(string(name), "gen_ai.")
	if at := attributeOf(name); at < attributeCount {
		s.set(at, v)
	}
}

// operation says what a GenAI span is about.
func (s *span) operation() []byte {
	var ignored schema.Faults
	return s.text(&ignored, operationName, requestType)
}

// callsModel reports whether the operation is one that calls a model.
func callsModel(operation string) bool {
	switch operation {
	case "chat", "text_completion", "generate_content", "embeddings":
		return true
	}
	return false
}

// wraps reports whether the operation is known to call no model itself, or to do
// so by way of spans of its own.
func wraps(operation string) bool {
	switch operation {
	case "invoke_agent", "create_agent", "invoke_workflow", "execute_tool", "plan", "retrieval",
		"agent", "workflow", "chain", "task", "tool":
		return true
	}
	return strings.Contains(operation, "_memory")
}

// isCall reports whether the span is a client's call of a model. A span of
// another operation, or of none, is one if it names a model and a provider or
// usage. The server's side of a call would count it twice.
func (s *span) isCall() bool {
	switch s.kind {
	case kindServer, kindConsumer, kindProducer:
		return false
	}
	operation := string(s.operation())
	switch {
	case !s.genAI || s.has(frameworkKind) || wraps(operation):
		return false
	case callsModel(operation):
		return true
	}
	return (s.has(responseModel) || s.has(requestModel)) && (s.has(providerName) || s.has(system) || s.tellsUsage())
}

func (s *span) tellsUsage() bool {
	return s.has(inputTokens) || s.has(promptTokens) || s.has(outputTokens) || s.has(completionTokens)
}

// call makes c what the span says of its call, save what only its resource says. Its
// texts are kept in the builder.
func (s *span) call(c *Call, keep *strings.Builder) {
	*c = Call{Key: s.key(keep), LatencyMS: schema.NoLatency}
	if s.trace == [16]byte{} || s.span == [8]byte{} {
		c.Faults.Add("span_id", "and trace_id are required")
	}
	text := func(of ...attribute) string { return stringOf(s.text(&c.Faults, of...), keep) }
	c.Agent = text(agentName)
	c.Provider = text(providerName, system)
	c.Model = text(responseModel, requestModel)
	c.SessionID = text(conversationID)
	if c.SessionID == "" {
		c.SessionID = c.Key[:2*len(s.trace)]
	}
	c.Step = text(operationName, requestType)
	c.ErrorType = text(errorType)
	c.Failed = c.ErrorType != "" || s.failed
	s.times(c)
	s.counts(c)
}

// times sets start and latency. A span that ends before it starts was timed by two
// clocks: its latency is not known.
func (s *span) times(c *Call) {
	if s.start == 0 {
		return
	}
	c.Start = time.Unix(0, int64(s.start)).UTC()
	if s.end >= s.start {
		// Not as a time.Duration, which ends at 292 years: a longer one is refused like any latency that is too large.
		const millisecond = uint64(time.Millisecond)
		nanoseconds := s.end - s.start
		c.LatencyMS = int64(nanoseconds/millisecond + nanoseconds%millisecond/(millisecond/2))
	}
}

func (s *span) counts(c *Call) {
	c.Input = s.count(&c.Faults, inputTokens, promptTokens)
	c.Output = s.count(&c.Faults, outputTokens, completionTokens)
	c.CacheRead = s.count(&c.Faults, cacheRead, cacheReadFormer)
	c.CacheWrite = s.count(&c.Faults, cacheWrite, cacheCreation, cacheCreationFormer)
	c.Reasoning = s.count(&c.Faults, reasoning, reasoningFormer)
	c.includeParts()
}

// keptBytes is how many bytes of texts share their memory.
const keptBytes = 4 << 10

// stringOf copies a text to the end of what is kept, so that the many short texts of a
// request are few pieces of memory.
func stringOf(text []byte, keep *strings.Builder) string {
	if keep.Cap()-keep.Len() < len(text) {
		keep.Reset()
		keep.Grow(max(keptBytes, len(text)))
	}
	start := keep.Len()
	_, _ = keep.Write(text)
	return keep.String()[start:]
}
