package price

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
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
			if diff := cmp.Diff(tt.want, string(breakdownJSON(t, &q))); diff != "" {
				t.Errorf("breakdown (-want +got):\n%s", diff)
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
	if b := breakdownJSON(t, &q); !json.Valid(b) {
		t.Errorf("breakdown = %s", b)
	}
}

// breakdownJSON is the breakdown of a quote as it arrives: packed, and made JSON.
func breakdownJSON(t *testing.T, q *Quote) []byte {
	t.Helper()
	text, err := AppendBreakdownJSON(nil, AppendBreakdown(nil, q))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every number arrives as it was, however large, and of every kind.
func TestAppendBreakdownKeepsEveryNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q Quote
		q.AboveTokens = rapid.Int64Min(0).Draw(t, "above")
		q.Rule = rapid.String().Draw(t, "rule")
		for k := range q.Parts {
			if n := rapid.Int64Min(0); rapid.Bool().Draw(t, "used") {
				q.Parts[k] = Part{max(n.Draw(t, "tokens"), 1), n.Draw(t, "rate"), n.Draw(t, "cost")}
			}
		}
		got, err := unpack(AppendBreakdown(nil, &q))
		if err != nil {
			t.Fatal(err)
		}
		if got.parts != q.Parts || got.aboveTokens != q.AboveTokens || string(got.rule) != q.Rule {
			t.Errorf("unpacked %+v, want %+v", got, q)
		}
	})
}

// What is no breakdown is told from one; what an earlier version made JSON stays that, and
// what a later one adds is passed over.
func TestAppendBreakdownJSONJudges(t *testing.T) {
	t.Parallel()
	q := mustQuote(t, Default(), "", "gpt-4o", today, Usage{Input: 1})
	good := AppendBreakdown(nil, &q)
	minusOne := protowire.AppendVarint(nil, math.MaxUint64)
	for name, tt := range map[string]struct {
		b    []byte
		want string // "" for an error
	}{
		"JSON":            {[]byte(`[{"kind":"input"}]`), `[{"kind":"input"}]`},
		"added fields":    {append(slices.Clone(good), 0x60, 7, 0x6a, 1, 'x', 0x75, 0, 0, 0, 0), string(breakdownJSON(t, &q))},
		"added negative":  {append(slices.Clone(good), append([]byte{0x60}, minusOne...)...), string(breakdownJSON(t, &q))},
		"empty":           {nil, `[]`},
		"a rule alone":    {[]byte{0x1a, 1, 'r'}, `[]`},
		"cut off":         {good[:len(good)-1], ""},
		"no kind":         {[]byte{0x0a, 2, 0x10, 1}, ""},
		"unknown kind":    {[]byte{0x0a, 4, 0x08, byte(Kinds) + 1, 0x10, 1}, ""},
		"negative tokens": {append([]byte{0x0a, 13, 0x08, 1, 0x10}, minusOne...), ""},
		"negative step":   {append([]byte{0x10}, minusOne...), ""},
		"object":          {[]byte(`{"kind":"input"}`), ""},
	} {
		got, err := AppendBreakdownJSON(nil, tt.b)
		if check := CheckBreakdown(tt.b); !IsBreakdownJSON(tt.b) && (err == nil) != (check == nil) {
			t.Errorf("%s: AppendBreakdownJSON error = %v, CheckBreakdown error = %v", name, err, check)
		}
		switch {
		case tt.want == "" && !errors.Is(err, ErrNotBreakdown):
			t.Errorf("%s: %s, error %v, want ErrNotBreakdown", name, got, err)
		case tt.want != "" && (err != nil || string(got) != tt.want):
			t.Errorf("%s: %s, error %v, want %s", name, got, err, tt.want)
		}
	}
}
