package price

import (
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// Names that the published data does not recognise are recognised by our overrides of it.
func TestBookKnowsWhatThePublishedDataLacks(t *testing.T) {
	t.Parallel()
	const priced, known = true, false
	tests := []struct {
		model, provider string
		priced          bool
	}{
		{"text-embedding-3-small", "openai", priced},
		{"text-embedding-3-large", "openai", priced},
		{"text-embedding-ada-002", "openai", priced},
		{"chatgpt-4o-latest", "openai", priced},
		{"ft:gpt-4o-mini-2024-07-18:my-org::abc123", "openai", priced},
		{"ft:gpt-4o-2024-08-06:my-org:custom:id", "openai", priced},
		{"ft:gpt-4.1-2025-04-14:my-org::abc", "openai", priced},
		{"ft:gpt-4.1-mini-2025-04-14:my-org::abc", "openai", priced},
		{"ft:gpt-3.5-turbo-0125:my-org::abc", "openai", priced},
		{"ft:something-new:my-org::abc", "openai", known},
		{"text-davinci-003", "openai", priced},
		{"davinci-002", "openai", priced},
		{"babbage-002", "openai", priced},
		{"embed-english-v3.0", "cohere", priced},
		{"embed-multilingual-v3.0", "cohere", priced},
		{"embed-english-light-v3.0", "cohere", priced},
		{"embed-multilingual-light-v3.0", "cohere", priced},
		{"embed-v4.0", "cohere", priced},
		{"rerank-v3.5", "cohere", known},
		{"rerank-english-v3.0", "cohere", known},
		{"rerank-multilingual-v3.0", "cohere", known},
		{"command", "cohere", priced},
		{"command-r-03-2024", "cohere", priced},
		{"command-r-plus-04-2024", "cohere", priced},
		{"command-a-03-2025", "cohere", priced},
		{"command-a-reasoning-08-2025", "cohere", priced},
		{"command-a-vision-07-2025", "cohere", priced},
		{"command-a-translate-08-2025", "cohere", priced},
		{"c4ai-aya-expanse-32b", "cohere", priced},
		{"c4ai-aya-vision-8b", "cohere", known},
		{"gemma-2-27b-it", "google", priced},
		{"gemma-3-27b-it", "google", priced},
		{"models/gemini-1.5-pro", "google", priced},
		{"models/gemma-3-27b-it", "google", priced},
		{"models/text-embedding-004", "google", priced},
		{"text-embedding-004", "google", priced},
		{"claude-instant-1.2", "anthropic", priced},
	}
	for _, tt := range tests {
		t.Run(tt.model, func(t *testing.T) {
			t.Parallel()
			if got := Default().Provider(tt.model); got != tt.provider {
				t.Errorf("Provider(%q) = %q, want %q", tt.model, got, tt.provider)
			}
			q := mustQuote(t, Default(), "", tt.model, today, Usage{Input: 1000, Output: 500})
			if priced := q.Source == Calculated; priced != tt.priced {
				t.Errorf("Quote(%q) is %s, want priced %v", tt.model, q.Source, tt.priced)
			}
		})
	}
}

// Exact names come first, then the longest rule; prefixes, versions and dates are taken off last.
func TestQuoteFindsTheModel(t *testing.T) {
	t.Parallel()
	tests := []struct{ provider, model, wantProvider, wantPrice string }{
		{"", "gpt-4o", "openai", "openai/gpt-4o"},
		{"openai", "  GPT-4o ", "openai", "openai/gpt-4o"},
		{"", "gpt-4o-20240513", "openai", "openai/gpt-4o-2024-05-13"},
		{"", "gpt-4o-2027-01-31", "openai", "openai/gpt-4o"},
		{"", "command-r-plus-01-2027", "cohere", "cohere/command-r-plus"},
		{"", "openai/gpt-4o", "openai", "openai/gpt-4o"},
		{"", "openai:gpt-4o", "openai", "openai/gpt-4o"},
		{"", "azure/gpt-4o", "azure", "openai/gpt-4o"},
		{"", "anthropic/claude-3.5-sonnet", "anthropic", "anthropic/claude-3-5-sonnet"},
		{"", "openrouter/openai/gpt-4o", "openrouter", "openrouter/openai/gpt-4o"},
		{"openrouter", "openai/gpt-4o", "openrouter", "openrouter/openai/gpt-4o"},
		{"", "gemini/gemini-1.5-pro", "google", "google/gemini-1.5-pro"},
		{"", "publishers/google/models/gemini-1.5-pro", "google", "google/gemini-1.5-pro"},
		{"", "projects/p/locations/l/publishers/anthropic/models/claude-3-haiku@20240307", "google", "google/claude-3-haiku"},
		{"vertex_ai", "claude-3-haiku@20240307", "google", "google/claude-3-haiku"},
		{"", "claude-3-haiku@20240307", "anthropic", "anthropic/claude-3-haiku"},
		{"", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "aws", "aws/regional.anthropic.claude-3-5-sonnet-20241022-v2:0"},
		{"aws.bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0"},
		{"anthropic", "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic", "anthropic/claude-3-5-sonnet"},
		{"bedrock", "anthropic.claude-v2:1", "aws", "anthropic/claude-2"},
		{"bedrock", "cohere.command-r-plus-v1:0", "aws", "aws/cohere.command-r-plus-v1:0"},
		{"azure", "gpt-4o-mini", "azure", "openai/gpt-4o-mini"},
		{"azure.ai.openai", "gpt-4o", "azure", "openai/gpt-4o"},
		{"AzureOpenAI", "gpt-35-turbo", "azure", "openai/gpt-3.5-turbo"},
		{"my-gateway", "gpt-4o", "my-gateway", "openai/gpt-4o"},
		{"xai", "grok-3", "x-ai", "x-ai/grok-3"},
		{"mistral_ai", "mistral-large-latest", "mistral", "mistral/mistral-large"},
		{"", "gemini-2.5-flash-lite-preview-09-2025", "google", "google/gemini-2.5-flash-lite"},
		{"", "gemini-2.5-pro-preview-tts", "google", "google/gemini-2.5-pro-tts"},
		{"", "gemini-2.5-pro-preview-06-05", "google", "google/gemini-2.5-pro"},
		{"", "mistral-large-latest", "mistral", "mistral/mistral-large"},
		{"", "claude-opus-4-1-20250805", "anthropic", "anthropic/claude-opus-4-1"},
	}
	for _, tt := range tests {
		t.Run(tt.provider+" "+tt.model, func(t *testing.T) {
			t.Parallel()
			q := mustQuote(t, Default(), tt.provider, tt.model, day(2026, time.January, 2), Usage{Input: 1, Output: 1})
			if q.Provider != tt.wantProvider || q.PriceID != tt.wantPrice {
				t.Errorf("Quote = %q by %q (%s), want %q by %q", q.Provider, q.PriceID, q.Rule, tt.wantProvider, tt.wantPrice)
			}
		})
	}
}

// A name that only looks like a model's is not the model, and has no price.
func TestQuoteDoesNotPriceLookAlikes(t *testing.T) {
	t.Parallel()
	for _, model := range []string{
		"gрt-4o",               // Cyrillic er
		"gpt-4о",               // Cyrillic o
		"gpt-4o\u200b",         // zero-width space
		"ｇｐｔ-4o",               // full width
		"gro\u212a-3",          // Kelvin sign, which lower-cases to k
		"claude-3-haiku\u0301", // combining accent
		"gpt‑4o",               // non-breaking hyphen
		"gpt 4o", "gpt-4o!", "gpt4o", "xgpt-4o",
	} {
		q := mustQuote(t, Default(), "", model, today, Usage{Input: 1})
		if q.Source != Unpriced {
			t.Errorf("Quote(%q) = %s by %s, want %s", model, q.Source, q.PriceID, Unpriced)
		}
	}
}

// The price is the one in force at the time of the call: by date, by hour of the day, by day of the week.
func TestQuoteUsesThePriceInForce(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	tests := []struct{ name, model, at, want string }{
		{"last moment", "o3", "2025-06-09T23:59:59.999999Z", "openai/o3"},
		{"first moment", "o3", "2025-06-10T00:00:00Z", "openai/o3@2025-06-10"},
		{"first moment in another zone", "o3", "2025-06-10T02:00:00+02:00", "openai/o3@2025-06-10"},
		{"since ever", "o3", "0001-01-01T00:00:00Z", "openai/o3"},
		{"before the window", "deepseek-chat", "2025-05-01T00:29:59Z", "deepseek/deepseek-chat"},
		{"in the window", "deepseek-chat", "2025-05-01T00:30:00Z", "deepseek/deepseek-chat@00:30-16:30"},
		{"in the window in another zone", "deepseek-chat", "2025-05-01T18:29:00+02:00", "deepseek/deepseek-chat@00:30-16:30"},
		{"after the window", "deepseek-chat", "2025-05-01T16:30:00Z", "deepseek/deepseek-chat"},
		{"peak hour before there were peaks", "deepseek-v4-pro", "2026-08-16T07:00:00Z", "deepseek/deepseek-v4-pro"},
		{"peaks on weekends at first", "deepseek-v4-pro", "2026-08-22T07:00:00Z", "deepseek/deepseek-v4-pro@2026-08-16T16:00:00Z@06:00-10:00"},
		{"no peak on Sunday", "deepseek-v4-pro", "2026-08-23T07:00:00Z", "deepseek/deepseek-v4-pro@2026-08-23"},
		{"peak on Monday", "deepseek-v4-pro", "2026-08-24T07:00:00Z", "deepseek/deepseek-v4-pro@2026-08-23@06:00-10:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if q := mustQuote(t, Default(), "", tt.model, at(tt.at), Usage{Input: 1}); q.PriceID != tt.want {
				t.Errorf("Quote at %s = %q, want %q", tt.at, q.PriceID, tt.want)
			}
		})
	}
}

// However many names are sent, the book remembers a fixed number of them, and none that is overlong.
func TestBookDoesNotGrowWithHostileNames(t *testing.T) {
	t.Parallel()
	b, err := Parse(embedded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		b.Provider(fmt.Sprintf("hostile-%d", i))
	}
	b.Provider(fmt.Sprintf("%0300d", 1))
	entries, bytes := 0, 0
	for i := range b.cache.sets {
		for j := range b.cache.sets[i] {
			if r := b.cache.sets[i][j].Load(); r != nil {
				entries++
				bytes = max(bytes, len(r.rawModel)+len(r.rawProvider))
			}
		}
	}
	if entries > cacheSets*cacheWays || bytes > maxCachedName {
		t.Errorf("%d entries of up to %d bytes remembered, want at most %d of %d", entries, bytes, cacheSets*cacheWays, maxCachedName)
	}
	if q := mustQuote(t, b, "", "gpt-4o", today, Usage{Input: 1}); q.PriceID != "openai/gpt-4o" {
		t.Errorf("gpt-4o after a flood is %q", q.PriceID)
	}
}

// What is remembered does not point into the caller's buffer, which is used again for the next request.
func TestBookCopiesNames(t *testing.T) {
	t.Parallel()
	b, err := Parse(embedded)
	if err != nil {
		t.Fatal(err)
	}
	buffer := []byte("gpt-4o-mini")
	b.Provider(unsafe.String(&buffer[0], len(buffer)))
	copy(buffer, "claude-2.1x")
	if q := mustQuote(t, b, "", "gpt-4o-mini", today, Usage{Input: 1}); q.Model != "gpt-4o-mini" {
		t.Errorf("gpt-4o-mini after its buffer changed is %q", q.Model)
	}
	if q := mustQuote(t, b, "", string(buffer), today, Usage{Input: 1}); q.Model != "claude-2" {
		t.Errorf("%s in the reused buffer is %q", buffer, q.Model)
	}
}

// A book answers many callers at once, the same to all.
func TestBookIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	b, err := Parse(embedded)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				b.Provider(fmt.Sprintf("noise-%d", i))
				if q, err := b.Quote("", "gpt-4o", today, Usage{Input: 1000}); err != nil || q.CostNanoUSD != 2_500_000 {
					t.Errorf("Quote = %d, %v, want 2500000", q.CostNanoUSD, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
