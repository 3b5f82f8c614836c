package decode

import (
	"strings"
	"testing"
)

// A name that is nearly that of a field was meant to be it; others are none of our business.
func TestClosestField(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"input_tokns": "input_tokens", "inputTokens": "input_tokens", "Input-Tokens": "input_tokens", "input_token": "input_tokens", "AGENT": "agent",
		"agnet": "agent", "modell": "model", "models": "model", "sessionId": "session_id", "session": "session_id", "userid": "user_id",
		"tag": "tags", "steps": "step", "metdata": "metadata", "cost_us": "cost_usd", "idempotencyKey": "idempotency_key", "latency": "latency_ms",
		"cache_write_h1_tokens": "cache_write_1h_tokens", "output_to" + "\u212a" + "ens": "output_tokens",
		"": "", "x": "", "stop": "", "name": "", "temperature": "", "cost": "", "tokens": "", "stage": "", "prompt": "", "message": "", "max_tokens": "",
		strings.Repeat("input_tokens", 4): "", strings.Repeat("\u023a", 20): "",
	} {
		if got := closestField(name); got != want {
			t.Errorf("closestField(%q) = %q, want %q", name, got, want)
		}
	}
	for _, field := range eventFields {
		var r Request
		_ = RequestFromJSON(&r, []byte(`{"`+field+`":null}`))
		if len(r.Warnings()) > 0 || closestField(field+"x") == "" {
			t.Errorf("%s is not known", field)
		}
	}
}
