package price

import (
	"fmt"
	"testing"
)

func BenchmarkQuote(b *testing.B) {
	usage := Usage{Input: 1200, CacheRead: 800, Output: 350}
	rate := Rate(1)
	overridden := Default().With([]Override{{Match: "other", Rates: Rates{Input: &rate}}, {Match: "gpt-*", Rates: Rates{Input: &rate, Output: &rate}}})
	benchmarks := []struct {
		name, provider, model string
		book                  *Book
	}{
		{"known provider and model", "openai", "gpt-4o", Default()},
		{"provider detected", "", "claude-3-5-sonnet-20241022", Default()},
		{"long name", "aws", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Default()},
		{"unpriced", "", "nobody-knows-this-model", Default()},
		{"override", "openai", "gpt-4o", overridden},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bb.book.Quote(bb.provider, bb.model, today, usage); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkQuoteParallel(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := Default().Quote("openai", "gpt-4o", today, Usage{Input: 1200, Output: 350}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkQuoteNewName is a name that was never seen, as a hostile client sends them.
func BenchmarkQuoteNewName(b *testing.B) {
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprintf("hostile-model-name-%d-2026-01-01", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := Default().Quote("", names[i%len(names)], today, Usage{Input: 1}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkAppendBreakdown(b *testing.B) {
	q, err := Default().Quote("openai", "gpt-4o", today, Usage{Input: 1200, CacheRead: 800, Output: 350})
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendBreakdown(dst[:0], &q)
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(embedded); err != nil {
			b.Fatal(err)
		}
	}
}
