package timescale

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// sumKey is what the events of a batch are added up by: fine enough for each table of
// sums, so that each event is looked up once and not once for each table.
type sumKey struct {
	account                schema.ID
	minute                 int64 // of arrival, in Unix seconds
	quarter                int64 // of the event's own time, in Unix seconds
	agent, provider, model string
}

// eventSum is what events add up to.
type eventSum struct {
	events, errors, unpriced, latencyCount                 int64
	input, output, cacheRead, cacheWrite, reasoning, spent schema.Sum
	latency                                                schema.Sum
	latencyMax                                             int64 // schema.NoLatency: none has one
	first, last                                            time.Time
	latencies                                              [latencySlots]uint32
}

func (s *eventSum) add(e *schema.Event) {
	s.events++
	if e.Status == schema.StatusError {
		s.errors++
	}
	if e.Source == schema.CostUnpriced {
		s.unpriced++
	}
	s.input.Add(e.InputTokens)
	s.output.Add(e.OutputTokens)
	s.cacheRead.Add(e.CacheReadTokens)
	s.cacheWrite.Add(e.CacheWriteTokens)
	s.cacheWrite.Add(e.CacheWrite1hTokens)
	s.reasoning.Add(e.ReasoningTokens)
	s.spent.Add(int64(e.Cost))
	if e.LatencyMS != schema.NoLatency {
		s.latencyCount++
		s.latency.Add(e.LatencyMS)
		s.latencyMax = max(s.latencyMax, e.LatencyMS)
		s.latencies[latencySlot(e.LatencyMS)]++
	}
	if e.Time.Before(s.first) {
		s.first = e.Time
	}
	if e.Time.After(s.last) {
		s.last = e.Time
	}
}

func (s *eventSum) addSum(o *eventSum) {
	s.events += o.events
	s.errors += o.errors
	s.unpriced += o.unpriced
	s.latencyCount += o.latencyCount
	s.input.AddSum(o.input)
	s.output.AddSum(o.output)
	s.cacheRead.AddSum(o.cacheRead)
	s.cacheWrite.AddSum(o.cacheWrite)
	s.reasoning.AddSum(o.reasoning)
	s.spent.AddSum(o.spent)
	s.latency.AddSum(o.latency)
	s.latencyMax = max(s.latencyMax, o.latencyMax)
	if o.first.Before(s.first) {
		s.first = o.first
	}
	if o.last.After(s.last) {
		s.last = o.last
	}
	for i, n := range o.latencies {
		s.latencies[i] += n
	}
}

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

// sums are what the events of a batch add up to, for the tables that are kept up as
// events arrive.
type sums struct {
	// sums are where index says; what is not used keeps its memory for the next batch.
	index map[sumKey]int
	sums  []eventSum
	keys  []sumKey
}

func (s *sums) reset() {
	if s.index == nil {
		s.index = map[sumKey]int{}
	}
	clear(s.index)
	s.sums, s.keys = s.sums[:0], s.keys[:0]
}

func (s *sums) add(e *schema.Event) {
	at := e.ReceivedAt.Unix()
	k := sumKey{e.AccountID, at - (at%60+60)%60, bucketOf(e.Time), e.Agent, e.Provider, e.Model}
	i, ok := s.index[k]
	if !ok {
		i = len(s.sums)
		s.index[k] = i
		s.sums = append(s.sums, eventSum{latencyMax: schema.NoLatency, first: e.Time, last: e.Time})
		s.keys = append(s.keys, k)
	}
	s.sums[i].add(e)
}

// each calls f with what the groups add up to that order says are the same, in the
// order that it says: every batch locks the rows of arrivals in the same order, so
// that two never wait for each other in a circle.
func (s *sums) each(order func(a, b *sumKey) int, f func(*sumKey, *eventSum)) {
	slices.SortFunc(s.keys, func(a, b sumKey) int { return order(&a, &b) })
	for i := 0; i < len(s.keys); {
		k := &s.keys[i]
		sum := &s.sums[s.index[*k]]
		i++
		if i < len(s.keys) && order(k, &s.keys[i]) == 0 {
			whole := *sum
			for ; i < len(s.keys) && order(k, &s.keys[i]) == 0; i++ {
				whole.addSum(&s.sums[s.index[s.keys[i]]])
			}
			sum = &whole
		}
		f(k, sum)
	}
}

// byArrival is the order of arrivals.
func byArrival(a, b *sumKey) int {
	return cmp.Or(
		slices.Compare(a.account[:], b.account[:]),
		cmp.Compare(a.minute, b.minute),
		cmp.Compare(a.agent, b.agent),
		cmp.Compare(a.provider, b.provider),
		cmp.Compare(a.model, b.model))
}

// byQuarter puts together what is one row of usage_live_parts.
func byQuarter(a, b *sumKey) int {
	return cmp.Or(
		slices.Compare(a.account[:], b.account[:]),
		cmp.Compare(a.quarter, b.quarter),
		cmp.Compare(a.agent, b.agent),
		cmp.Compare(a.model, b.model),
		cmp.Compare(a.provider, b.provider))
}
