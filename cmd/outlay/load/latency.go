package load

import (
	"slices"
	"time"
)

// Latencies are the times of single requests.
type Latencies struct{ all []time.Duration }

// Add notes one.
func (l *Latencies) Add(d time.Duration) { l.all = append(l.all, d) }

// merge adds those of another worker.
func (l *Latencies) merge(o Latencies) { l.all = append(l.all, o.all...) }

// Quantile returns the latency that a share of q of the requests did not exceed;
// 0 without any.
func (l *Latencies) Quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	// All are kept, not a histogram: a million of them is 8 MB.
	slices.Sort(l.all)
	return l.all[min(len(l.all)-1, int(q*float64(len(l.all))))]
}
