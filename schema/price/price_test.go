package price

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// day is noon in UTC.
func day(year int, month time.Month, d int) time.Time {
	return time.Date(year, month, d, 12, 0, 0, 0, time.UTC)
}

var today = day(2026, time.November, 20)

func mustQuote(t *testing.T, b *Book, provider, model string, at time.Time, u Usage) Quote {
	t.Helper()
	q, err := b.Quote(provider, model, at, u)
	if err != nil {
		t.Fatalf("Quote(%q, %q, %+v): %v", provider, model, u, err)
	}
	return q
}

// Costs are what the providers publish, to the nano-dollar. Every figure is worked out by hand in its comment,
// in micro-dollars: tokens times USD per million tokens.
func TestQuoteCostsWhatProvidersPublish(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, provider, model string
		at                    time.Time
		usage                 Usage
		nano                  int64
		priceID               string
	}{
		{"gpt-4o", "", "gpt-4o", today, Usage{Input: 1000, Output: 500}, 7_500_000, "openai/gpt-4o"},                                                      // 2500 + 5000
		{"gpt-4o, part cached", "openai", "gpt-4o", today, Usage{Input: 1000, CacheRead: 400, Output: 500}, 7_000_000, "openai/gpt-4o"},                   // 1500 + 500 + 5000
		{"gpt-4o first snapshot", "", "gpt-4o-2024-05-13", today, Usage{Input: 1000, Output: 500}, 12_500_000, "openai/gpt-4o-2024-05-13"},                // 5000 + 7500
		{"gpt-4o-mini", "", "gpt-4o-mini", today, Usage{Input: 1000, Output: 500}, 450_000, "openai/gpt-4o-mini"},                                         // 150 + 300
		{"gpt-4o-mini, one token each", "", "gpt-4o-mini-2024-07-18", today, Usage{Input: 1, Output: 1}, 750, "openai/gpt-4o-mini"},                       // 0.15 + 0.6
		{"o3 before its change", "", "o3", day(2025, time.June, 9), Usage{Input: 1000, Output: 500}, 30_000_000, "openai/o3"},                             // 10000 + 20000
		{"o3 before its change, cached", "", "o3", day(2025, time.June, 9), Usage{Input: 1000, CacheRead: 1000}, 2_500_000, "openai/o3"},                  // 2500
		{"o3 after its change", "", "o3", day(2025, time.June, 10), Usage{Input: 1000, Output: 500}, 6_000_000, "openai/o3@2025-06-10"},                   // 2000 + 4000
		{"o3 today", "", "o3-2025-04-16", today, Usage{Input: 1000, Output: 500, Reasoning: 400}, 6_000_000, "openai/o3@2025-06-10"},                      // 2000 + 800 + 3200
		{"claude-3-5-sonnet", "", "claude-3-5-sonnet-20241022", today, Usage{Input: 1000, Output: 500}, 10_500_000, "anthropic/claude-3-5-sonnet"},        // 3000 + 7500
		{"claude-3-haiku", "", "claude-3-haiku-20240307", today, Usage{Input: 1000, Output: 500}, 875_000, "anthropic/claude-3-haiku"},                    // 250 + 625
		{"gemini-1.5-pro at its step", "", "gemini-1.5-pro", today, Usage{Input: 128_000, Output: 1000}, 165_000_000, "google/gemini-1.5-pro"},            // 160000 + 5000
		{"gemini-1.5-pro above its step", "", "gemini-1.5-pro", today, Usage{Input: 128_001, Output: 1000}, 330_002_500, "google/gemini-1.5-pro"},         // 320002.5 + 10000
		{"gemini-1.5-pro cached above", "", "gemini-1.5-pro-002", today, Usage{Input: 200_000, CacheRead: 200_000}, 125_000_000, "google/gemini-1.5-pro"}, // 125000
		{"command-r-plus", "", "command-r-plus", today, Usage{Input: 1000, Output: 500}, 7_500_000, "cohere/command-r-plus"},                              // 2500 + 5000
		{"command-r-plus first", "", "command-r-plus-04-2024", today, Usage{Input: 1000, Output: 500}, 10_500_000, "cohere/command-r-plus-04-2024"},       // 3000 + 7500
		{"half to even down", "", "command-r7b", today, Usage{Input: 3}, 112, "cohere/command-r7b"},                                                       // 0.1125
		{"half to even up", "", "command-r7b", today, Usage{Input: 1}, 38, "cohere/command-r7b"},                                                          // 0.0375
		{
			"claude cache, all kinds", "", "claude-sonnet-4-0", today,
			Usage{Input: 10_000, CacheRead: 5000, CacheWrite: 2000, CacheWrite1h: 1000, Output: 100},
			// 2000 plain at 3, 5000 at 0.30, 2000 at 3.75, 1000 at 6, 100 at 15: 6000 + 1500 + 7500 + 6000 + 1500
			22_500_000, "anthropic/claude-sonnet-4-0",
		},
		{
			"claude on Vertex has an hour's cache", "vertex", "claude-3-5-sonnet-v2@20241022", today,
			Usage{Input: 1000, CacheWrite1h: 1000},
			6_000_000, "google/claude-3-5-sonnet", // 6000
		},
		{
			"reasoning with a rate of its own", "perplexity", "sonar-deep-research", today,
			Usage{Input: 1000, Output: 1000, Reasoning: 400},
			8_000_000, "perplexity/sonar-deep-research", // 2000 + 4800 + 1200
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := mustQuote(t, Default(), tt.provider, tt.model, tt.at, tt.usage)
			if q.CostNanoUSD != tt.nano || q.PriceID != tt.priceID || q.Source != Calculated {
				t.Errorf("Quote = %d nano-USD by %q (%s), want %d by %q", q.CostNanoUSD, q.PriceID, q.Source, tt.nano, tt.priceID)
			}
		})
	}
}

// A quote says all that the event keeps: provider, model, rule, step and the parts with their rates.
func TestQuoteExplainsItself(t *testing.T) {
	t.Parallel()
	got := mustQuote(t, Default(), "OpenAI ", "GPT-4o-2024-11-20", today, Usage{Input: 1000, CacheRead: 400, Output: 500})
	want := Quote{
		CostNanoUSD: 7_000_000, Source: Calculated, PriceID: "openai/gpt-4o", Provider: "openai", Model: "gpt-4o",
		Rule: "equals gpt-4o-2024-11-20",
		Parts: Parts{
			Input:     {Tokens: 600, RatePicoUSD: 2_500_000, CostNanoUSD: 1_500_000},
			CacheRead: {Tokens: 400, RatePicoUSD: 1_250_000, CostNanoUSD: 500_000},
			Output:    {Tokens: 500, RatePicoUSD: 10_000_000, CostNanoUSD: 5_000_000},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Quote (-want +got):\n%s", diff)
	}
	if above := mustQuote(t, Default(), "", "gemini-1.5-pro", today, Usage{Input: 128_001}).AboveTokens; above != 128_000 {
		t.Errorf("AboveTokens = %d, want 128000", above)
	}
}

// What cannot be priced is a state, never a cost of nothing.
func TestQuoteTellsUnknownFromNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, provider, model string
		usage                 Usage
		want                  Source
	}{
		{"known model, no tokens given", "", "gpt-4o", Usage{}, NoUsage},
		{"known model, zero tokens given", "", "gpt-4o", Usage{Given: true}, Calculated},
		{"unknown model", "", "my-own-model", Usage{Input: 1}, Unpriced},
		{"unknown model, zero tokens given", "", "my-own-model", Usage{Given: true}, Unpriced},
		{"unknown model, no tokens given", "", "my-own-model", Usage{}, NoUsage},
		{"no model", "openai", "", Usage{Input: 1}, Unpriced},
		{"no model, no tokens", "", "", Usage{}, NoUsage},
		{"known provider that does not sell the model", "groq", "gpt-4o", Usage{Input: 1}, Unpriced},
		{"model sold by the hour", "", "whisper-1", Usage{Input: 1}, Unpriced},
		{"model sold by the search", "", "rerank-v3.5", Usage{Input: 1}, Unpriced},
		{"model free of charge", "google", "gemma-3-27b-it", Usage{Input: 1, Output: 1}, Calculated},
		{"model that runs on own machines", "ollama", "deepseek-r1:8b", Usage{Input: 1}, Unpriced},
		{"output of a model with vectors", "", "text-embedding-3-small", Usage{Input: 1, Output: 1}, Calculated},
		{"counts below zero", "", "gpt-4o", Usage{Input: -1, Output: -1}, NoUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := mustQuote(t, Default(), tt.provider, tt.model, today, tt.usage)
			if q.Source != tt.want {
				t.Errorf("Source = %s, want %s", q.Source, tt.want)
			}
			if q.Source != Calculated && (q.CostNanoUSD != 0 || q.PriceID != "" || q.Parts != Parts{}) {
				t.Errorf("Quote = %+v, want no cost, price or parts", q)
			}
		})
	}
}

// A missing rate of a cached kind or of reasoning is that of input or output, never zero.
func TestQuoteFallsBackToInputAndOutput(t *testing.T) {
	t.Parallel()
	rate := func(n Rate) *Rate { return &n }
	b := Default().With([]Override{{Match: "m", Rates: Rates{Input: rate(7), Output: rate(11)}}, {Match: "w", Rates: Rates{Input: rate(7), CacheWrite: rate(9), Output: rate(0)}}})
	u := Usage{Input: 4000, CacheRead: 1000, CacheWrite: 1000, CacheWrite1h: 1000, Output: 2000, Reasoning: 1000}
	if q := mustQuote(t, b, "", "m", today, u); q.CostNanoUSD != 4*7+2*11 {
		t.Errorf("cost = %d, want %d", q.CostNanoUSD, 4*7+2*11)
	}
	if q := mustQuote(t, b, "", "w", today, u); q.CostNanoUSD != 2*7+2*9 {
		t.Errorf("cost with a rate for cache writes = %d, want %d", q.CostNanoUSD, 2*7+2*9)
	}
}

// A price of input alone does not make output free.
func TestQuoteWithoutARateForWhatWasUsedIsUnpriced(t *testing.T) {
	t.Parallel()
	in := Rate(7)
	b := Default().With([]Override{{Match: "m", Rates: Rates{Input: &in}}})
	if q := mustQuote(t, b, "", "m", today, Usage{Input: 1, Output: 1}); q.Source != Unpriced {
		t.Errorf("Source = %s, want %s", q.Source, Unpriced)
	}
	if q := mustQuote(t, b, "", "m", today, Usage{Input: 1000}); q.CostNanoUSD != 7 {
		t.Errorf("cost of input alone = %d, want 7", q.CostNanoUSD)
	}
}
