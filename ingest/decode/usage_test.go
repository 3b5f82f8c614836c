package decode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
)

// usageEvent decodes an event with the given fields and returns its counts.
func usageEvent(t *testing.T, fields string) (tokens, bool, error) {
	t.Helper()
	var r Request
	if err := RequestFromJSON(&r, []byte(`{"agent":"a",`+fields+`}`)); err != nil {
		return tokens{}, false, err
	}
	var e schema.Event
	r.fill(&e, schema.ID{}, time.Now())
	return tokens{e.InputTokens, e.OutputTokens, e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens}, r.hasUsage(), nil
}

// Every provider's usage object is read as that provider counts: what Anthropic
// and Bedrock count outside of the input, and Google outside of both, is added.
func TestUsageIsReadAsItsProviderCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fields string
		want         tokens
	}{
		{
			"OpenAI chat", `"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},
			"completion_tokens_details":{"reasoning_tokens":100,"accepted_prediction_tokens":0}}`,
			tokens{input: 2006, output: 300, cacheRead: 1920, reasoning: 100},
		},
		{"OpenAI chat without details", `"usage":{"prompt_tokens":20,"completion_tokens":3,"prompt_tokens_details":null}`, tokens{input: 20, output: 3}},
		{"OpenAI embeddings", `"usage":{"prompt_tokens":8,"total_tokens":8}`, tokens{input: 8}},
		{
			"reasoning on top, as the total shows",
			`"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":399,"completion_tokens_details":{"reasoning_tokens":386}}`,
			tokens{input: 12, output: 387, reasoning: 386},
		},
		{
			"reasoning inside, as the total shows",
			`"usage":{"prompt_tokens":12,"completion_tokens":400,"total_tokens":412,"completion_tokens_details":{"reasoning_tokens":386}}`,
			tokens{input: 12, output: 400, reasoning: 386},
		},
		{"an imitator's cache", `"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`, tokens{input: 100, output: 5, cacheRead: 64}},
		{
			"a gateway's cache writes", `"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":20}}`,
			tokens{input: 100, output: 5, cacheRead: 10, cacheWrite: 20},
		},
		{
			"OpenAI responses", `"usage":{"input_tokens":328,"input_tokens_details":{"cached_tokens":200},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":380}`,
			tokens{input: 328, output: 52, cacheRead: 200, reasoning: 30},
		},
		{
			"Anthropic", `"usage":{"input_tokens":21,"cache_creation_input_tokens":188,"cache_read_input_tokens":1000,"output_tokens":393,"service_tier":"standard",
			"cache_creation":{"ephemeral_5m_input_tokens":88,"ephemeral_1h_input_tokens":100},"server_tool_use":{"web_search_requests":1}}`,
			tokens{input: 1209, output: 393, cacheRead: 1000, cacheWrite: 88, cacheHour: 100},
		},
		{"Anthropic without the split", `"usage":{"input_tokens":21,"cache_creation_input_tokens":188,"cache_read_input_tokens":0,"output_tokens":3}`, tokens{input: 209, output: 3, cacheWrite: 188}},
		{
			"Anthropic with the split only", `"usage":{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":4},"output_tokens":8}`,
			tokens{input: 7, output: 8, cacheWrite: 2, cacheHour: 4},
		},
		{"Anthropic or OpenAI, which is the same", `"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":null}`, tokens{input: 10, output: 3}},
		{"Anthropic's end of a stream", `"usage":{"output_tokens":15}`, tokens{output: 15}},
		{
			"both caches, OpenAI says", `"provider":"OpenAI","usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":4,"input_tokens_details":{"cached_tokens":4}}`,
			tokens{input: 10, output: 3, cacheRead: 4},
		},
		{
			"both caches, Anthropic says", `"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":4,"input_tokens_details":{"cached_tokens":4}},"provider":"Anthropic"`,
			tokens{input: 14, output: 3, cacheRead: 4},
		},
		{
			"Google", `"usage":{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":30,"cachedContentTokenCount":40,"toolUsePromptTokenCount":5,"totalTokenCount":155,
			"promptTokensDetails":[{"modality":"TEXT","tokenCount":100}]}`,
			tokens{input: 105, output: 50, cacheRead: 40, reasoning: 30},
		},
		{"Google in Python", `"usage":{"prompt_token_count":100,"candidates_token_count":20,"thoughts_token_count":null}`, tokens{input: 100, output: 20}},
		{"Cohere, what is billed", `"usage":{"billed_units":{"input_tokens":5.0,"output_tokens":418},"tokens":{"input_tokens":71,"output_tokens":419}}`, tokens{input: 5, output: 418}},
		{"Cohere, tokens only", `"usage":{"tokens":{"input_tokens":71,"output_tokens":419}}`, tokens{input: 71, output: 419}},
		{
			"Bedrock", `"usage":{"inputTokens":30,"outputTokens":628,"totalTokens":758,"cacheReadInputTokens":60,"cacheWriteInputTokens":40,
			"cacheDetails":[{"ttl":"1h","inputTokens":15,"x":{"ttl":"1h"}},{"inputTokens":25,"ttl":"5m"},7]}`,
			tokens{input: 130, output: 628, cacheRead: 60, cacheWrite: 25, cacheHour: 15},
		},
		{"usage and the same counts", `"input_tokens":20,"completion_tokens":3,"usage":{"prompt_tokens":20,"completion_tokens":3}`, tokens{input: 20, output: 3}},
		{
			"usage and the same counts, cache outside", `"token_accounting":"exclusive","input_tokens":20,"cache_read_tokens":5,"usage":{"input_tokens":20,"output_tokens":3,"cache_read_input_tokens":5}`,
			tokens{input: 25, output: 3, cacheRead: 5},
		},
		{"exclusive says nothing about usage", `"token_accounting":"exclusive","usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":5}}`, tokens{input: 20, cacheRead: 5}},
		{"escaped names", `"us\u0061ge":{"prompt_t\u006fkens":20,"prompt_tokens_d\u0065tails":{"cached_tokens":5}}`, tokens{input: 20, cacheRead: 5}},
	} {
		got, given, err := usageEvent(t, c.fields)
		if err != nil || !given {
			t.Errorf("%s: usage given: %v, %v", c.name, given, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(tokens{})); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", c.name, diff)
		}
	}
}

// A usage that says nothing about tokens is no usage, never zero tokens.
func TestUsageWithoutTokens(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{`"usage":null`, `"usage":{"billed_units":{"search_units":1}}`} {
		if _, given, err := usageEvent(t, fields); given || err != nil {
			t.Errorf("%s: usage given: %v, %v", fields, given, err)
		}
	}
}
