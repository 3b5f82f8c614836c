package ingest

import (
	"github.com/go-json-experiment/json/jsontext"

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

// usage reads a provider's own usage object. What it means is decided in finish,
// when the provider is known.
func (d *decoder) usage() error {
	if kind := d.json.PeekKind(); kind != '{' {
		if kind != 'n' {
			d.faults.Add("usage", "must be an object")
		}
		return d.json.SkipValue()
	}
	d.request.reported = new(reportedUsage)
	return d.usageMembers(make([]byte, 0, 64))
}

// usageMembers reads an object of a usage whose members' names come after path.
// Names that we do not know are passed over: providers add some all the time.
func (d *decoder) usageMembers(path []byte) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		name, err := jsontext.AppendUnquote(path, raw)
		if err != nil {
			return err
		}
		if err := d.usageMember(name, len(path) == 0); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

func (d *decoder) usageMember(name []byte, top bool) error {
	u := d.request.reported
	switch kind := d.json.PeekKind(); {
	case kind == '{' && top && usageParts(name):
		u.cohere.seen = u.cohere.seen || string(name) == "billed_units" || string(name) == "tokens"
		return d.usageMembers(append(name, '.'))
	case kind == '[' && top && string(name) == "cacheDetails":
		return d.cacheDetails()
	}
	count := u.count(name)
	if count == nil {
		return d.json.SkipValue()
	}
	return d.usageCount(name, count)
}

func (d *decoder) usageCount(name []byte, dst *optionalCount) error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	n, ok := int64(0), false
	if raw.Kind() == '0' {
		n, ok = schema.ParseCount(string(raw))
	}
	if !ok {
		if field := "usage." + string(name); !d.faults.Has(field) {
			d.faults.Add(field, schema.CountFault)
		}
		return nil
	}
	*dst = optionalCount{value: n, name: "usage"}
	return nil
}

// cacheDetails reads Bedrock's list of cache writes by how long they are kept:
// [{"ttl":"1h","inputTokens":10}].
func (d *decoder) cacheDetails() error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		read := d.json.SkipValue
		if d.json.PeekKind() == '{' {
			read = d.cacheDetail
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

func (d *decoder) cacheDetail() error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	var ttl optionalText
	var count optionalCount
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		switch string(raw) {
		case `"ttl"`:
			err = d.text("usage.cacheDetails.ttl", &ttl)
		case `"inputTokens"`:
			err = d.usageCount([]byte("cacheDetails.inputTokens"), &count)
		default:
			err = d.json.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if ttl.value == "1h" {
		// Bounded, so that a long list cannot overflow.
		sum := &d.request.reported.bedrock.hourWrite
		*sum = min(*sum+count.value, schema.MaxCount+1)
	}
	_, err := d.json.ReadToken()
	return err
}
