package timescale

import "math"

// latencySlots is how many slots the database's histograms have: four to each
// doubling, the last one without an end.
const latencySlots = 93

// latencySlot returns the slot that the database's function latency_histogram counts
// a latency in.
func latencySlot(ms int64) int {
	if ms < 8 {
		return int(max(ms, 0))
	}
	if ms >= 1<<24 {
		return latencySlots - 1
	}
	// A double is exact enough: it takes the slot or the one before, and no slot but
	// those at powers of two begins at a whole number.
	slot := int(4 * math.Log2(float64(ms)))
	for float64(ms) >= math.Exp2(float64(slot+1)/4) {
		slot++
	}
	for float64(ms) < math.Exp2(float64(slot)/4) {
		slot--
	}
	return slot - 4*3 + 8
}

// histogram adds a histogram as the database keeps it: one number in which each slot is twelve decimal digits, so that histograms
// add up as numbers do. A slot is three digits to the base of 10 000; the first of all may be 0, which PostgreSQL accepts.
func (a *array) histogram(slots *[latencySlots]uint32) {
	// Slots above the highest that has a latency are left out, so most histograms are short.
	var digits [3 * latencySlots]uint16
	n := 0
	for i := latencySlots - 1; i >= 0; i-- {
		if slots[i] > 0 || n > 0 {
			count := slots[i]
			digits[n], digits[n+1], digits[n+2] = uint16(count/100_000_000), uint16(count/10_000%10_000), uint16(count%10_000)
			n += 3
		}
	}
	a.digits(digits[:n])
}
