package otlp

import (
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/outlayhq/outlay/schema"
)

// view is a span with the attributes that matter here looked up.
type view struct {
	span    ptrace.Span
	service string
	attributes
	// genAI says that the span has any attribute of the GenAI conventions.
	genAI bool
}

func newView(s ptrace.Span, service string) view {
	v := view{span: s, service: service}
	for name, value := range s.Attributes().All() {
		v.genAI = v.genAI || strings.HasPrefix(name, "gen_ai.")
		if at := attributeOf(name); at < attributeCount {
			v.set(at, name, value)
		}
	}
	return v
}

// operation says what a GenAI span is about.
func (v *view) operation() string {
	var ignored schema.Faults
	return v.text(&ignored, operationName, requestType)
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
// another operation, or of none, is one if it tells a model and a provider or
// usage. The server's side of a call would count it twice.
func (v *view) isCall() bool {
	switch v.span.Kind() {
	case ptrace.SpanKindServer, ptrace.SpanKindConsumer, ptrace.SpanKindProducer:
		return false
	case ptrace.SpanKindUnspecified, ptrace.SpanKindInternal, ptrace.SpanKindClient:
	}
	operation := v.operation()
	switch {
	case !v.genAI || v.has(frameworkKind) || wraps(operation):
		return false
	case callsModel(operation):
		return true
	}
	return (v.has(responseModel) || v.has(requestModel)) && (v.has(providerName) || v.has(system) || v.tellsUsage())
}

func (v *view) tellsUsage() bool {
	return v.has(inputTokens) || v.has(promptTokens) || v.has(outputTokens) || v.has(completionTokens)
}

// call returns what the span tells of its call.
func (v *view) call() *Call {
	c := &Call{Key: keyOf(v.span.TraceID(), v.span.SpanID()), LatencyMS: schema.NoLatency}
	if v.span.TraceID().IsEmpty() || v.span.SpanID().IsEmpty() {
		c.Faults.Add("span_id", "and trace_id are required")
	}
	c.Agent = v.text(&c.Faults, agentName)
	if c.Agent == "" {
		c.Agent = v.service
	}
	c.Provider = v.text(&c.Faults, providerName, system)
	c.Model = v.text(&c.Faults, responseModel, requestModel)
	c.SessionID = v.text(&c.Faults, conversationID)
	if c.SessionID == "" {
		c.SessionID = v.span.TraceID().String()
	}
	c.Step = v.text(&c.Faults, operationName, requestType)
	c.ErrorType = v.text(&c.Faults, errorType)
	c.Failed = c.ErrorType != "" || v.span.Status().Code() == ptrace.StatusCodeError
	v.times(c)
	v.counts(c)
	return c
}

// keyOf names a span among all spans.
func keyOf(trace pcommon.TraceID, span pcommon.SpanID) string {
	return trace.String() + "-" + span.String()
}

// times sets start and latency. A span that ends before it starts was told by two
// clocks: its latency is not known.
func (v *view) times(c *Call) {
	start, end := v.span.StartTimestamp(), v.span.EndTimestamp()
	if start == 0 {
		return
	}
	c.Start = start.AsTime()
	if end >= start {
		c.LatencyMS = time.Duration(end - start).Round(time.Millisecond).Milliseconds()
	}
}

func (v *view) counts(c *Call) {
	c.Input = v.count(&c.Faults, inputTokens, promptTokens)
	c.Output = v.count(&c.Faults, outputTokens, completionTokens)
	c.CacheRead = v.count(&c.Faults, cacheRead, cacheReadFormer)
	c.CacheWrite = v.count(&c.Faults, cacheWrite, cacheCreation, cacheCreationFormer)
	c.Reasoning = v.count(&c.Faults, reasoning, reasoningFormer)
	c.settle()
}
