package otlp

import (
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/outlayhq/outlay/schema"
)

// attribute is one that a call is made of. No name of the GenAI conventions is
// stable: each meaning is read under its current and its former names, the
// current one first.
type attribute int

const (
	operationName attribute = iota
	requestType             // of OpenLLMetry, before there was an operation name
	frameworkKind           // of OpenLLMetry: "workflow", "task", "agent" or "tool"
	providerName
	system
	responseModel
	requestModel
	inputTokens
	promptTokens
	outputTokens
	completionTokens
	cacheRead
	cacheReadFormer
	cacheWrite
	cacheCreation
	cacheCreationFormer
	reasoning
	reasoningFormer
	conversationID
	agentName
	errorType
	attributeCount
)

// attributeOf returns the attribute of a name, or attributeCount.
func attributeOf(name string) attribute {
	switch name {
	case "gen_ai.operation.name":
		return operationName
	case "llm.request.type":
		return requestType
	case "traceloop.span.kind":
		return frameworkKind
	case "gen_ai.provider.name":
		return providerName
	case "gen_ai.system":
		return system
	case "gen_ai.response.model":
		return responseModel
	case "gen_ai.request.model":
		return requestModel
	case "gen_ai.usage.input_tokens":
		return inputTokens
	case "gen_ai.usage.prompt_tokens":
		return promptTokens
	case "gen_ai.usage.output_tokens":
		return outputTokens
	case "gen_ai.usage.completion_tokens":
		return completionTokens
	case "gen_ai.usage.cache_read.input_tokens":
		return cacheRead
	case "gen_ai.usage.cache_read_input_tokens":
		return cacheReadFormer
	case "gen_ai.usage.cache_write.input_tokens":
		return cacheWrite
	case "gen_ai.usage.cache_creation.input_tokens":
		return cacheCreation
	case "gen_ai.usage.cache_creation_input_tokens":
		return cacheCreationFormer
	case "gen_ai.usage.reasoning.output_tokens":
		return reasoning
	case "gen_ai.usage.reasoning_tokens":
		return reasoningFormer
	case "gen_ai.conversation.id":
		return conversationID
	case "gen_ai.agent.name":
		return agentName
	case "error.type":
		return errorType
	}
	return attributeCount
}

// attributes are the values of one span. Of a name that is there twice, the first
// counts.
type attributes struct {
	values [attributeCount]pcommon.Value
	names  [attributeCount]string
}

func (a *attributes) set(at attribute, name string, value pcommon.Value) {
	if a.names[at] == "" && value.Type() != pcommon.ValueTypeEmpty {
		a.names[at], a.values[at] = name, value
	}
}

func (a *attributes) has(at attribute) bool { return a.names[at] != "" }

// text returns the first of the attributes that is there and not empty.
func (a *attributes) text(faults *schema.Faults, of ...attribute) string {
	for _, at := range of {
		if !a.has(at) {
			continue
		}
		switch v := a.values[at]; v.Type() {
		case pcommon.ValueTypeStr:
			if v.Str() != "" {
				return v.Str()
			}
		case pcommon.ValueTypeInt:
			return strconv.FormatInt(v.Int(), 10)
		default:
			faults.Add(a.names[at], "must be a string")
		}
	}
	return ""
}

// count returns the first of the attributes that is there.
func (a *attributes) count(faults *schema.Faults, of ...attribute) Count {
	for _, at := range of {
		if !a.has(at) {
			continue
		}
		n, ok := countOf(a.values[at])
		if !ok {
			faults.Add(a.names[at], schema.CountFault)
		}
		return Count{Value: n, Name: a.names[at]}
	}
	return Count{}
}

// countOf reads a number of tokens. Languages without integers send doubles, and
// some instrumentations strings.
func countOf(v pcommon.Value) (int64, bool) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		if n := v.Int(); n >= 0 && n <= schema.MaxCount {
			return n, true
		}
	case pcommon.ValueTypeDouble:
		if f := v.Double(); f >= 0 && f <= float64(schema.MaxCount) && f == math.Trunc(f) {
			return int64(f), true
		}
	case pcommon.ValueTypeStr:
		return schema.ParseCount(v.Str())
	}
	return 0, false
}
