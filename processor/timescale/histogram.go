package timescale

import (
	"encoding/binary"
	"math"
)

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

// histogram adds a histogram as the database keeps it: one number in which each slot
// is twelve decimal digits. On the wire a number is its digits to the base 10 000,
// the highest first, so that each slot is three of them.
func (a *array) histogram(slots *[latencySlots]uint32) {
	a.count++
	highest := -1
	for i, n := range slots {
		if n > 0 {
			highest = i
		}
	}
	digits := 3 * (highest + 1)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(8+2*digits))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(digits))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(max(digits-1, 0))) // the power of the first digit
	a.buf = append(a.buf, 0, 0, 0, 0)                                      // positive, no decimals
	for i := highest; i >= 0; i-- {
		n := slots[i]
		a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(n/100_000_000))
		a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(n/10_000%10_000))
		a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(n%10_000))
	}
}
