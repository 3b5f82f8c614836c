package price

import (
	"errors"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

const maxTokens = 1<<53 - 1

// tokens are drawn near the ends and in between, where carries and rounding happen.
func tokens(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 2_000_000), rapid.Int64Range(0, maxTokens)).Draw(t, name)
}

func usages() *rapid.Generator[Usage] {
	return rapid.Custom(func(t *rapid.T) Usage {
		return Usage{
			Input: tokens(t, "input"), Output: tokens(t, "output"), CacheRead: tokens(t, "cache read"), CacheWrite: tokens(t, "cache write"),
			CacheWrite1h: tokens(t, "cache write 1h"), Reasoning: tokens(t, "reasoning"), Given: rapid.Bool().Draw(t, "given"),
		}
	})
}

// rateBooks are books with one model, "m", at any rates the format allows.
func rateBooks() *rapid.Generator[*Book] {
	rate := rapid.Custom(func(t *rapid.T) *Rate {
		if rapid.IntRange(0, 4).Draw(t, "missing") == 0 {
			return nil
		}
		r := rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, 600_000_000), rapid.Int64Range(0, int64(catalogue.MaxRate))).Draw(t, "rate")
		return (*Rate)(&r)
	})
	return rapid.Custom(func(t *rapid.T) *Book {
		return Default().With([]Override{{Match: "m", Rates: Rates{
			Input: rate.Draw(t, "input"), Output: rate.Draw(t, "output"), CacheRead: rate.Draw(t, "cache read"),
			CacheWrite: rate.Draw(t, "cache write"), CacheWrite1h: rate.Draw(t, "cache write 1h"), Reasoning: rate.Draw(t, "reasoning"),
		}}})
	})
}

// exact is the cost in nano-USD by arbitrary-precision rationals, rounded half to even.
func exact(counts [Kinds]int64, r rates) *big.Int {
	pico := new(big.Int)
	for k, n := range counts {
		pico.Add(pico, new(big.Int).Mul(big.NewInt(n), big.NewInt(r[k])))
	}
	nano, rest := new(big.Int).QuoRem(pico, big.NewInt(1000), new(big.Int))
	if c := rest.Cmp(big.NewInt(500)); c > 0 || c == 0 && nano.Bit(0) == 1 {
		nano.Add(nano, big.NewInt(1))
	}
	return nano
}

// Whatever the tokens and rates: the cost is the exact one rounded half to even, or it is refused as too large.
// It never overflows, and the parts add up to it, each within a nano-dollar of its own exact cost.
func TestQuoteIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, u := rateBooks().Draw(t, "book"), usages().Draw(t, "usage")
		q, err := b.Quote("", "m", today, u)
		counts, r := split(u), b.overrides.list[0].tariff.tiers[0].rates
		for k, n := range counts {
			if n > 0 && r[k] < 0 {
				if q.Source != Unpriced && err == nil {
					t.Fatalf("Quote = %s without a rate for %s", q.Source, Kind(k))
				}
				return
			}
		}
		want := exact(counts, r)
		if want.Cmp(big.NewInt(MaxCostNanoUSD)) > 0 {
			if !errors.Is(err, ErrTooLarge) || q.CostNanoUSD != 0 {
				t.Fatalf("Quote = %d, %v for %s nano-USD, want ErrTooLarge", q.CostNanoUSD, err, want)
			}
			return
		}
		if err != nil || big.NewInt(q.CostNanoUSD).Cmp(want) != 0 {
			t.Fatalf("Quote = %d, %v, want %s", q.CostNanoUSD, err, want)
		}
		var sum, cached int64
		for k, part := range q.Parts.All() {
			sum += part.CostNanoUSD
			if k != Output && k != Reasoning {
				cached += part.Tokens
			}
			share := new(big.Int).Mul(big.NewInt(part.Tokens), big.NewInt(part.RatePicoUSD))
			off := share.Sub(share, new(big.Int).Mul(big.NewInt(part.CostNanoUSD), big.NewInt(1000)))
			if off.CmpAbs(big.NewInt(1000)) >= 0 {
				t.Fatalf("part %s costs %d nano-USD, %s pico-USD off", k, part.CostNanoUSD, off)
			}
		}
		if sum != q.CostNanoUSD {
			t.Fatalf("parts add up to %d, the cost is %d", sum, q.CostNanoUSD)
		}
		if u.CacheRead+u.CacheWrite+u.CacheWrite1h <= u.Input && q.Source == Calculated && cached != u.Input {
			t.Fatalf("parts hold %d input tokens of %d", cached, u.Input)
		}
	})
}

// A quote depends on the call alone: asked in any order, before or after any others, it is the same.
func TestQuoteDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	type call struct {
		model string
		usage Usage
	}
	models := rapid.SampledFrom([]string{"gpt-4o", "o3", "GPT-4o", "models/gemini-1.5-pro", "claude-3-5-sonnet-20241022", "nobody-knows", "us.amazon.nova-lite-v1:0"})
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
			return call{models.Draw(t, "model"), usages().Draw(t, "usage")}
		}), 1, 20).Draw(t, "calls")
		fresh := *Default()
		fresh.cache = newCache()
		first := map[call]Quote{}
		for _, c := range calls {
			first[c], _ = fresh.Quote("", c.model, today, c.usage)
		}
		for _, c := range rapid.Permutation(calls).Draw(t, "order") {
			if q, _ := Default().Quote("", c.model, today, c.usage); q != first[c] {
				t.Fatalf("Quote(%+v) = %+v, and %+v in another order", c, q, first[c])
			}
		}
	})
}

// More tokens never cost less within a tier, and a cap of USD 1,000,000 is met exactly.
func TestQuoteStopsAtAMillionDollars(t *testing.T) {
	t.Parallel()
	one := Rate(1_000_000) // 1 micro-dollar a token
	b := Default().With([]Override{{Match: "m", Rates: Rates{Input: &one, Output: &one}}})
	q, err := b.Quote("", "m", today, Usage{Input: 1_000_000_000_000})
	if err != nil || q.CostNanoUSD != MaxCostNanoUSD {
		t.Errorf("Quote = %d, %v, want %d", q.CostNanoUSD, err, MaxCostNanoUSD)
	}
	for _, u := range []Usage{{Input: 1_000_000_000_001}, {Input: 1_000_000_000_000, Output: 1}, {Input: maxTokens, Output: maxTokens}} {
		if _, err := b.Quote("", "m", today, u); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Quote(%+v) error = %v, want ErrTooLarge", u, err)
		}
	}
}
