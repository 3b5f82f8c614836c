package usage

import (
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5/pgtype"
)

// histogramSlots is how many slots a histogram of the database has: four to each
// doubling of the latency, the last one without an end.
const histogramSlots = 93

// slotDigits is how many decimal digits of the database's number hold one slot.
const slotDigits = 12

// Histogram counts latencies in slots. It sums over buckets and groups, and shows
// any percentile of the sum within 11 per cent. The database keeps one as a single
// number, made by its function latency_histogram; what is read from it here and by
// latency_percentiles there is the same.
type Histogram struct {
	// slots end with the last one that has a count, or a little later.
	slots []int64
	total int64
}

// ScanNumeric reads the database's number. NULL is the empty Histogram.
func (h *Histogram) ScanNumeric(v pgtype.Numeric) error {
	*h = Histogram{slots: make([]int64, histogramSlots)}
	var rest Sum
	if err := rest.ScanNumeric(v); err != nil {
		return fmt.Errorf("latency histogram: %w", err)
	}
	base := new(big.Int).Exp(big.NewInt(10), big.NewInt(slotDigits), nil)
	var count big.Int
	number := rest.Int()
	for i := 0; i < histogramSlots && number.Sign() != 0; i++ {
		number.QuoRem(number, base, &count)
		h.slots[i] = count.Int64()
		h.total += h.slots[i]
	}
	if number.Sign() != 0 {
		return fmt.Errorf("latency histogram has more than %d slots", histogramSlots)
	}
	return nil
}

// Add adds the counts of other.
func (h *Histogram) Add(other *Histogram) {
	if more := len(other.slots) - len(h.slots); more > 0 {
		h.slots = append(h.slots, make([]int64, more)...)
	}
	for i, n := range other.slots {
		h.slots[i] += n
	}
	h.total += other.total
}

// Percentile returns the latency in milliseconds that percent of the calls do not
// exceed, by nearest rank, or nil without calls. highest is the highest latency
// seen; no percentile is above it.
func (h *Histogram) Percentile(percent, highest int64) *int64 {
	if h.total == 0 {
		return nil
	}
	var value [1]int64
	h.percentiles(highest, value[:], percent)
	return &value[0]
}

// percentiles writes several percentiles, which rise. There are calls.
func (h *Histogram) percentiles(highest int64, into []int64, percents ...int64) {
	slot, seen := 0, h.slots[0]
	for i, percent := range percents {
		for seen*100 < h.total*percent {
			slot++ // No further than the last slot: the slots add up to the total.
			seen += h.slots[slot]
		}
		into[i] = min(slotLatency(slot, highest), highest)
	}
}

// slotLatency returns the milliseconds that stand for a slot: the geometric mean
// of its ends, and highest for the open one.
func slotLatency(slot int, highest int64) int64 {
	if slot == len(slotMeans) {
		return highest
	}
	return slotMeans[slot]
}

// slotMeans are the geometric means of the ends of the slots but the open one.
var slotMeans = [histogramSlots - 1]int64{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 21, 24, 29,
	35, 42, 49, 58, 70, 83, 99, 117, 139, 166, 198, 235, 279, 332, 395, 469,
	558, 664, 790, 939, 1116, 1328, 1580, 1878, 2233, 2656, 3159, 3756, 4466, 5312, 6317, 7512,
	8933, 10624, 12634, 15024, 17866, 21247, 25268, 30048, 35733, 42494, 50535, 60096, 71467, 84989, 101070, 120193,
	142935, 169979, 202140, 240387, 285870, 339959, 404281, 480774, 571740, 679918, 808563, 961548, 1143480, 1359835, 1617125, 1923097,
	2286960, 2719670, 3234251, 3846194, 4573921, 5439340, 6468501, 7692387, 9147842, 10878679, 12937002, 15384775,
}
