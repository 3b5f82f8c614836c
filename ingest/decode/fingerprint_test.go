package decode

import (
	"hash/maphash"
	"testing"
)

// Each field makes a difference to the fingerprint, and borders between fields do.
func TestFingerprintDistinguishesRequests(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	seen := map[uint64]string{}
	for _, fields := range []string{
		``, `"model":"m"`, `"provider":"m"`, `"session_id":"m"`, `"step":"m"`, `"user_id":"m"`, `"error_type":"m"`, `"tags":["m"]`, `"tags":["m","m"]`, `"tags":["mm"]`,
		`"parent_event_id":"evt_00000000000000000000000001"`, `"status":"error"`, `"input_tokens":1`, `"output_tokens":1`, `"input_tokens":0`, `"latency_ms":1`, `"cost_usd":1`,
		`"input_tokens":2,"cache_read_tokens":1`, `"input_tokens":2,"cache_write_tokens":1`, `"input_tokens":2,"cache_write_1h_tokens":1`, `"output_tokens":1,"reasoning_tokens":1`,
		`"metadata":{}`, `"metadata":{"a":1}`, `"timestamp":"2026-01-01T00:00:00Z"`,
	} {
		var r Request
		comma := ","
		if fields == "" {
			comma = ""
		}
		if err := RequestFromJSON(&r, []byte(`{"agent":"a"`+comma+fields+`}`)); err != nil {
			t.Fatal(err)
		}
		sum := r.Fingerprint(seed)
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have the same fingerprint", fields, other)
		}
		seen[sum] = fields
	}
}
