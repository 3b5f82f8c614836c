package ingest

import (
	"fmt"
	"testing"
)

// What cannot be read, or says two things, is refused and named.
func TestUsageRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, c := range []struct{ fields, named string }{
		{`"usage":[]`, "usage"},
		{`"usage":"5"`, "usage"},
		{`"usage":{}`, "usage"},
		{`"usage":{"seconds":5,"type":"duration"}`, "usage"},
		{`"usage":{"totalTokenCount":5}`, "usage"},
		{`"usage":{"prompt_tokens":null}`, "usage"},
		{`"usage":{"Prompt_tokens":5}`, "usage"},
		{`"usage":{"prompt_tokens":-1}`, "usage.prompt_tokens"},
		{`"usage":{"prompt_tokens":"1"}`, "usage.prompt_tokens"},
		{`"usage":{"prompt_tokens":{}}`, "usage.prompt_tokens"},
		{`"usage":{"prompt_tokens":1.5}`, "usage.prompt_tokens"},
		{`"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":true}}`, "usage.prompt_tokens_details.cached_tokens"},
		{`"usage":{"inputTokens":1,"cacheDetails":[{"inputTokens":-1},{"inputTokens":-1}]}`, "usage.cacheDetails.inputTokens"},
		{`"usage":{"prompt_tokens":1,"prompt_tokens":2}`, "usage.prompt_tokens"},
		{`"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}`, "usage"},
		{`"usage":{"prompt_tokens":1,"promptTokenCount":1}`, "usage"},
		{`"usage":{"prompt_tokens":1,"input_tokens":2}`, "usage"},
		{`"usage":{"input_tokens":9,"cache_read_input_tokens":1,"input_tokens_details":{"cached_tokens":1}}`, "usage"},
		{`"usage":{"input_tokens":9,"cache_creation_input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":2}}`, "usage"},
		{`"usage":{"inputTokens":9,"cacheDetails":[{"ttl":"1h","inputTokens":1}]}`, "usage"},
		{`"usage":{"input_tokens":9007199254740991,"cache_read_input_tokens":9007199254740991}`, "usage"},
		{`"usage":{"prompt_tokens":1},"input_tokens":2`, "input_tokens"},
		{`"usage":{"prompt_tokens":1},"input_tokens":2`, "usage"},
		{`"completion_tokens":2,"usage":{"prompt_tokens":1}`, "completion_tokens"},
		{`"usage":{"prompt_tokens":1},"cache_read_tokens":1`, "cache_read_tokens"},
	} {
		r := f.post(t, "/v1/track", `{"agent":"a",`+c.fields+`}`)
		if r.status != 422 || !names(r.body["errors"], c.named) {
			t.Errorf("%s: %d %v, want 422 that names %s", c.fields, r.status, r.body["errors"], c.named)
		}
	}
}

// A usage object is priced as the token fields are.
func TestUsageIsPriced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, path := range []string{"/v1/track", "/v1/events"} {
		r := f.post(t, path, `{"agent":"a","model":"gpt-4o","usage":{"prompt_tokens":1000,"completion_tokens":200,"prompt_tokens_details":{"cached_tokens":400}}}`)
		if got := fmt.Sprint(r.body["cost_usd"]); r.status != 200 || got != "0.004" {
			t.Errorf("%s: status %d, cost %s, want 200 and 0.004", path, r.status, got)
		}
	}
}
