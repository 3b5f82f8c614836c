package otlp

import (
	"math"
	"strconv"

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
func attributeOf(name []byte) attribute {
	switch string(name) {
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

// name is what attributeOf knows the attribute by.
func (at attribute) name() string {
	return [...]string{
		operationName:       "gen_ai.operation.name",
		requestType:         "llm.request.type",
		frameworkKind:       "traceloop.span.kind",
		providerName:        "gen_ai.provider.name",
		system:              "gen_ai.system",
		responseModel:       "gen_ai.response.model",
		requestModel:        "gen_ai.request.model",
		inputTokens:         "gen_ai.usage.input_tokens",
		promptTokens:        "gen_ai.usage.prompt_tokens",
		outputTokens:        "gen_ai.usage.output_tokens",
		completionTokens:    "gen_ai.usage.completion_tokens",
		cacheRead:           "gen_ai.usage.cache_read.input_tokens",
		cacheReadFormer:     "gen_ai.usage.cache_read_input_tokens",
		cacheWrite:          "gen_ai.usage.cache_write.input_tokens",
		cacheCreation:       "gen_ai.usage.cache_creation.input_tokens",
		cacheCreationFormer: "gen_ai.usage.cache_creation_input_tokens",
		reasoning:           "gen_ai.usage.reasoning.output_tokens",
		reasoningFormer:     "gen_ai.usage.reasoning_tokens",
		conversationID:      "gen_ai.conversation.id",
		agentName:           "gen_ai.agent.name",
		errorType:           "error.type",
	}[at]
}

// value is what an attribute was set to.
type value struct {
	kind valueKind
	// text says where in the span's texts that of a kindText is.
	text part
	// number is a kindInt, or the bits of a kindDouble.
	number uint64
}

type valueKind int

const (
	kindNone valueKind = iota
	kindText
	kindInt
	kindDouble
	kindOther
)

// attributes are the values of one span. Of a name that is there twice, the first
// counts.
type attributes [attributeCount]value

func (a *attributes) set(at attribute, v value) {
	if a[at].kind == kindNone {
		a[at] = v
	}
}

func (a *attributes) has(at attribute) bool { return a[at].kind != kindNone }

// text returns the first of the attributes that is there and not empty, as it was sent.
func (s *span) text(faults *schema.Faults, of ...attribute) []byte {
	for _, at := range of {
		switch v := &s.attributes[at]; v.kind {
		case kindNone:
		case kindText:
			if text := v.text.of(s.texts); len(text) > 0 {
				return text
			}
		case kindInt:
			return strconv.AppendInt(nil, int64(v.number), 10)
		case kindDouble, kindOther:
			faults.Add(at.name(), "must be a string")
		}
	}
	return nil
}

// count returns the first of the attributes that is there.
func (s *span) count(faults *schema.Faults, of ...attribute) Count {
	for _, at := range of {
		if !s.has(at) {
			continue
		}
		n, ok := s.attributes[at].count(s.texts)
		if !ok {
			faults.Add(at.name(), schema.CountFault)
		}
		return Count{Value: n, Name: at.name()}
	}
	return Count{}
}

// count reads a number of tokens. Languages without integers send doubles, and
// some instrumentations strings.
func (v *value) count(texts []byte) (int64, bool) {
	switch v.kind {
	case kindInt:
		if n := int64(v.number); n >= 0 && n <= schema.MaxCount {
			return n, true
		}
	case kindDouble:
		if f := math.Float64frombits(v.number); f >= 0 && f <= float64(schema.MaxCount) && f == math.Trunc(f) {
			return int64(f), true
		}
	case kindText:
		return schema.ParseCount(string(v.text.of(texts)))
	case kindNone, kindOther:
	}
	return 0, false
}
