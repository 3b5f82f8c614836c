package price

import "math/bits"

const (
	picoPerNano = 1000
	// maxPartPico bounds a part so that six of them add up in 64 bits; it is above the largest cost allowed.
	maxPartPico = 2 * uint64(MaxCostNanoUSD) * picoPerNano
	// noRate marks a kind without a price.
	noRate = -1
)

// rates are pico-USD a token, or noRate.
type rates [Kinds]int64

// split makes disjoint counts of a usage. Parts are kept as given; what is left of the total is plain.
func split(u Usage) [Kinds]int64 {
	var n [Kinds]int64
	n[CacheRead], n[CacheWrite], n[CacheWrite1h] = max(u.CacheRead, 0), max(u.CacheWrite, 0), max(u.CacheWrite1h, 0)
	n[Reasoning] = max(u.Reasoning, 0)
	n[Output] = max(u.Output-n[Reasoning], 0)
	rest := max(u.Input, 0)
	for _, k := range [...]Kind{CacheRead, CacheWrite, CacheWrite1h} {
		rest -= min(rest, n[k])
	}
	n[Input] = rest
	return n
}

// charge prices the counts into q. It reports false, and leaves q alone, when a kind that was used has no rate.
func (q *Quote) charge(counts [Kinds]int64, r *rates) (bool, error) {
	var parts Parts
	var total, floors uint64
	var remainders [Kinds]uint64
	for k, tokens := range counts {
		if tokens == 0 {
			continue
		}
		if r[k] < 0 {
			return false, nil
		}
		// 128 bits: 2^53 tokens at a realistic rate already exceed 64.
		high, pico := bits.Mul64(uint64(tokens), uint64(r[k]))
		if high != 0 || pico > maxPartPico {
			return false, ErrTooLarge
		}
		total += pico
		floors += pico / picoPerNano
		remainders[k] = pico % picoPerNano
		parts[k] = Part{Tokens: tokens, RatePicoUSD: r[k], CostNanoUSD: int64(pico / picoPerNano)}
	}
	nano := roundHalfEven(total)
	if nano > uint64(MaxCostNanoUSD) {
		return false, ErrTooLarge
	}
	for range nano - floors {
		k := largest(&remainders)
		parts[k].CostNanoUSD++
		remainders[k] = 0
	}
	q.CostNanoUSD, q.Parts = int64(nano), parts
	return true, nil
}

// roundHalfEven turns pico-USD into nano-USD; a tie goes to the even neighbour.
func roundHalfEven(pico uint64) uint64 {
	nano, rest := pico/picoPerNano, pico%picoPerNano
	if rest > picoPerNano/2 || rest == picoPerNano/2 && nano%2 == 1 {
		nano++
	}
	return nano
}

// largest is the first kind with the largest remainder.
func largest(remainders *[Kinds]uint64) Kind {
	var best Kind
	for k := range Kinds {
		if remainders[k] > remainders[best] {
			best = k
		}
	}
	return best
}
