package price

import (
	"testing"
	"time"
)

// An account's own price comes before the catalogue; the most specific in force wins.
func TestWithPutsOverridesFirst(t *testing.T) {
	t.Parallel()
	rates := func(input Rate) Rates { return Rates{Input: &input, Output: &input} }
	june := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	b := Default().With([]Override{
		{Match: "*", Rates: rates(1000), From: june.AddDate(0, 1, 0)},
		{Match: "gpt-*", Rates: rates(2000)},
		{Match: "GPT-4o*", Rates: rates(3000)},
		{Match: "gpt-4o", Rates: rates(4000)},
		{Match: "gpt-4o", Rates: rates(5000), From: june},
		{Match: "gpt-4o", Provider: "azure-openai", Rates: rates(6000)},
		{Match: "*-ours-*-v1", Rates: rates(7000)},
	})
	tests := []struct {
		name, provider, model string
		at                    time.Time
		nano                  int64
		id                    string
	}{
		{"before the override", "", "gpt-4o", june.Add(-time.Second), 4000, "override/gpt-4o"},
		{"from the override on", "", "gpt-4o", june, 5000, "override/gpt-4o@2026-06-01"},
		{"one provider's", "Azure", "gpt-4o", june, 6000, "override/azure/gpt-4o"},
		{"longer pattern", "", "gpt-4o-mini", june, 3000, "override/gpt-4o*"},
		{"shorter pattern", "", "gpt-4.1", june, 2000, "override/gpt-*"},
		{"a model nobody else knows", "", "x-ours-y-v1", june, 7000, "override/*-ours-*-v1"},
		{"any model, later", "", "nobody-knows", june.AddDate(0, 1, 0), 1000, "override/*@2026-07-01"},
		{"catalogue where no override is in force", "", "o3-mini", june, 1_100_000, "openai/o3-mini"},
		{"unknown where no override is in force", "", "nobody-knows", june, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := mustQuote(t, b, tt.provider, tt.model, tt.at, Usage{Input: 1000})
			if q.CostNanoUSD != tt.nano || q.PriceID != tt.id {
				t.Errorf("Quote = %d by %q, want %d by %q", q.CostNanoUSD, q.PriceID, tt.nano, tt.id)
			}
		})
	}
	if q := mustQuote(t, Default(), "", "gpt-4o", june, Usage{Input: 1000}); q.PriceID != "openai/gpt-4o" {
		t.Errorf("With changed the book it was made from: %q", q.PriceID)
	}
	if q := mustQuote(t, b.With(nil), "", "gpt-4o", june, Usage{Input: 1000}); q.PriceID != "openai/gpt-4o" {
		t.Errorf("With(nil) kept overrides: %q", q.PriceID)
	}
}

// The texts between the stars of a pattern do not overlap.
func TestOverridePatterns(t *testing.T) {
	t.Parallel()
	b := Default()
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"a*c", "ac", true},
		{"a*c", "abbc", true},
		{"ab*bc", "abc", false},
		{"*b*", "abc", true},
		{"*b*b*", "abc", false},
		{"*", "", true},
		{"", "", false},
	}
	for _, tt := range tests {
		o := b.newOverride(Override{Match: tt.pattern})
		if got := o.matches(tt.name); got != tt.want {
			t.Errorf("pattern %q matches %q = %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}
