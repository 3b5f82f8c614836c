package decode

import (
	"slices"

	"github.com/outlayhq/outlay/schema"
)

// count returns where the count with this path of names is kept, or nil.
func (u *reportedUsage) count(path []byte) *optionalCount {
	switch string(path) {
	case "prompt_tokens":
		return &u.prompt
	case "completion_tokens":
		return &u.completion
	case "total_tokens":
		return &u.total
	case "input_tokens":
		return &u.input
	case "output_tokens":
		return &u.output
	case "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens":
		return &u.cached
	case "prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens":
		return &u.written
	case "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens":
		return &u.reasoning
	case "cache_read_input_tokens":
		return &u.cacheRead
	case "cache_creation_input_tokens":
		return &u.cacheCreation
	case "cache_creation.ephemeral_5m_input_tokens":
		return &u.shortWrite
	case "cache_creation.ephemeral_1h_input_tokens":
		return &u.hourWrite
	case "promptTokenCount", "prompt_token_count":
		return &u.google.prompt
	case "candidatesTokenCount", "candidates_token_count", "responseTokenCount", "response_token_count":
		return &u.google.candidates
	case "thoughtsTokenCount", "thoughts_token_count":
		return &u.google.thoughts
	case "cachedContentTokenCount", "cached_content_token_count":
		return &u.google.cached
	case "toolUsePromptTokenCount", "tool_use_prompt_token_count":
		return &u.google.toolUse
	case "inputTokens":
		return &u.bedrock.input
	case "outputTokens":
		return &u.bedrock.output
	case "cacheReadInputTokens":
		return &u.bedrock.read
	case "cacheWriteInputTokens":
		return &u.bedrock.write
	case "billed_units.input_tokens":
		return &u.cohere.billedInput
	case "billed_units.output_tokens":
		return &u.cohere.billedOutput
	case "tokens.input_tokens":
		return &u.cohere.input
	case "tokens.output_tokens":
		return &u.cohere.output
	}
	return nil
}

// usageParts reports whether a usage has counts in an object of this name.
func usageParts(name []byte) bool {
	switch string(name) {
	case "prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details",
		"cache_creation", "billed_units", "tokens":
		return true
	}
	return false
}

// usage reads a provider's own usage object. What it means is decided in validate, when the provider is known.
func (d *decoder) usage() error {
	if kind := d.json.PeekKind(); kind != '{' {
		if kind != 'n' {
			d.errs.Add("usage", "must be an object")
		}
		return d.json.SkipValue()
	}
	d.request.reported = new(reportedUsage)
	return d.members(func(name []byte) error { return d.usageMember(slices.Clone(name), true) })
}

// usageMember reads the member of a usage whose path of names is path. Names that are not known are passed over:
// providers add some all the time.
func (d *decoder) usageMember(path []byte, top bool) error {
	u := d.request.reported
	switch kind := d.json.PeekKind(); {
	case kind == '{' && top && usageParts(path):
		u.cohere.seen = u.cohere.seen || string(path) == "billed_units" || string(path) == "tokens"
		path = append(path, '.')
		return d.members(func(name []byte) error { return d.usageMember(append(path, name...), false) })
	case kind == '[' && top && string(path) == "cacheDetails":
		return d.elements(d.cacheDetail)
	}
	count := u.count(path)
	if count == nil {
		return d.json.SkipValue()
	}
	return d.usageCount(path, count)
}

func (d *decoder) usageCount(path []byte, dst *optionalCount) error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	n, ok := parseCount(raw)
	if !ok {
		if field := "usage." + string(path); !d.errs.Has(field) {
			d.errs.Add(field, schema.CountFault)
		}
		return nil
	}
	*dst = optionalCount{value: n, name: "usage"}
	return nil
}

// cacheDetail reads an element of Bedrock's list of cache writes by how long they are kept:
// [{"ttl":"1h","inputTokens":10}].
func (d *decoder) cacheDetail() error {
	if d.json.PeekKind() != '{' {
		return d.json.SkipValue()
	}
	var ttl optionalText
	var count optionalCount
	err := d.members(func(name []byte) error {
		switch string(name) {
		case "ttl":
			return d.text("usage.cacheDetails.ttl", &ttl)
		case "inputTokens":
			return d.usageCount([]byte("cacheDetails.inputTokens"), &count)
		}
		return d.json.SkipValue()
	})
	if err == nil && ttl.value == "1h" {
		// Bounded, so that a long list cannot overflow.
		sum := &d.request.reported.bedrock.hourWrite
		*sum = min(*sum+count.value, schema.MaxCount+1)
	}
	return err
}
