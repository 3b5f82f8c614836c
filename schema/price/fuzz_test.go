package price

import (
	"encoding/json"
	"errors"
	"testing"
)

// No file brings the book down: it is refused, or the book made of it answers.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"providers":[]}`))
	f.Add([]byte(`{"version":1,"providers":[{"id":"a","aliases":[{"equals":"b"}],"detect":[{"regex":"^m"}],"models":[{"id":"m","rules":[{"and":[{"not":{"contains":"x"}},{"starts_with":"m"}]}],"prices":[{"input":1.5,"output":2,"above":[{"tokens":5,"input":3}]},{"from":"2026-01-01","input":2},{"from":"2026-01-01","daily":{"start":"23:00","end":"01:00","weekdays":true},"input":4}]}]}]}`))
	f.Add([]byte(`{"version":1,"providers":[{"id":"a","fallback":["b"]},{"id":"b","fallback":["a"],"models":[{"id":"m"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil {
			return
		}
		for _, provider := range []string{"", "a", "b", "unknown"} {
			for _, model := range []string{"m", "models/m", "m-2026-01-01", "x"} {
				checkQuote(t, b, provider, model, Usage{Input: 7, CacheRead: 3, Output: 5})
				checkQuote(t, b, provider, model, Usage{Input: maxTokens, Output: maxTokens})
			}
		}
	})
}

// No name brings the book down, makes a cost negative or breaks the breakdown.
func FuzzQuote(f *testing.F) {
	f.Add("", "gpt-4o", int64(1000), int64(500))
	f.Add("aws", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", int64(1), int64(maxTokens))
	f.Add("OpenAI", "models/", int64(-1), int64(0))
	f.Add("a/b", "openai/openai/openai:gpt-4o-20240230", int64(1), int64(1))
	f.Add("\x00", "us.us.global.:0-v1:0", int64(1), int64(1))
	f.Fuzz(func(t *testing.T, provider, model string, input, output int64) {
		checkQuote(t, Default(), provider, model, Usage{Input: input, Output: output})
	})
}

func checkQuote(t *testing.T, b *Book, provider, model string, u Usage) {
	t.Helper()
	q, err := b.Quote(provider, model, today, u)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		t.Fatalf("Quote error = %v", err)
	}
	if q.CostNanoUSD < 0 || q.CostNanoUSD > MaxCostNanoUSD {
		t.Fatalf("cost = %d", q.CostNanoUSD)
	}
	if again, _ := b.Quote(provider, model, today, u); again != q {
		t.Fatalf("asked twice: %+v, then %+v", q, again)
	}
	if breakdown := AppendBreakdown(nil, &q); !json.Valid(breakdown) {
		t.Fatalf("breakdown = %s", breakdown)
	}
}
