package price

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendBreakdown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, provider, model string
		usage                 Usage
		want                  string
	}{
		{
			"two kinds", "", "gpt-4o",
			Usage{Input: 1000, Output: 3},
			`[{"kind":"input","tokens":1000,"rate_usd_per_mtok":2.5,"cost_usd":0.0025,"tier":"base","rule":"equals gpt-4o"},` +
				`{"kind":"output","tokens":3,"rate_usd_per_mtok":10,"cost_usd":0.00003,"tier":"base","rule":"equals gpt-4o"}]`,
		},
		{
			"long context", "", "models/gemini-1.5-pro",
			Usage{Input: 128_001, CacheRead: 128_000},
			`[{"kind":"input","tokens":1,"rate_usd_per_mtok":2.5,"cost_usd":0.0000025,"tier":"above 128000","rule":"contains gemini-1.5-pro"},` +
				`{"kind":"cache_read","tokens":128000,"rate_usd_per_mtok":0.625,"cost_usd":0.08,"tier":"above 128000","rule":"contains gemini-1.5-pro"}]`,
		},
		{
			"rule with a backslash", "", "grok-4.3-20260101",
			Usage{Output: 1},
			`[{"kind":"output","tokens":1,"rate_usd_per_mtok":2.5,"cost_usd":0.0000025,"tier":"base","rule":"regex ^grok-4\\.3-\\d{8}$"}]`,
		},
		{"unpriced", "", "nobody-knows", Usage{Output: 1}, `[]`},
		{"no tokens", "", "gpt-4o", Usage{Given: true}, `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := mustQuote(t, Default(), tt.provider, tt.model, today, tt.usage)
			got := AppendBreakdown(nil, &q)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("AppendBreakdown (-want +got):\n%s", diff)
			}
		})
	}
}

// An operator's pattern cannot break the JSON that is stored.
func TestAppendBreakdownIsAlwaysJSON(t *testing.T) {
	t.Parallel()
	zero := Rate(0)
	q := mustQuote(t, Default().With([]Override{{Match: "*\x00\"\\ü*", Rates: Rates{Input: &zero}}}), "", "a\x00\"\\üb", today, Usage{Input: 1})
	if q.Source != Calculated {
		t.Fatalf("Source = %s, want %s", q.Source, Calculated)
	}
	if b := AppendBreakdown(nil, &q); !json.Valid(b) {
		t.Errorf("AppendBreakdown = %s", b)
	}
}
