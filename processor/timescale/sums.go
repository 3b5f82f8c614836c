package timescale

import (
	"cmp"
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

// add adds an event. It runs once for each event that is stored.
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

// addSum adds another sum of the same names.
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

// sums are what the events of a batch add up to, for the tables that are kept up as events arrive. Memory is kept for the next batch.
type sums struct {
	// index is the place of a key in keys and sums.
	index map[sumKey]int
	// keys and sums belong together place by place.
	keys []sumKey
	sums []eventSum
	// order holds the places in the order in which they were encoded last.
	order []int
}

// reset forgets the batch before and keeps its memory.
func (s *sums) reset() {
	if s.index == nil {
		s.index = map[sumKey]int{}
	}
	clear(s.index)
	s.keys, s.sums, s.order = s.keys[:0], s.sums[:0], s.order[:0]
}

// add adds an event to the sum of its key.
func (s *sums) add(e *schema.Event) {
	at := e.ReceivedAt.Unix()
	k := sumKey{e.AccountID, at - (at%60+60)%60, bucketOf(e.Time), e.Agent, e.Provider, e.Model}
	i, ok := s.index[k]
	if !ok {
		i = len(s.keys)
		s.index[k] = i
		s.keys = append(s.keys, k)
		s.sums = append(s.sums, eventSum{latencyMax: schema.NoLatency, first: e.Time, last: e.Time})
		s.order = append(s.order, i)
	}
	s.sums[i].add(e)
}

// encode adds to a group one row for all keys of the same bucket, account and names, in their order: every batch writes the rows
// that it shares with others in the same order, so that no two wait for each other in a circle.
func (s *sums) encode(g *group[sumRow], bucket func(*sumKey) int64) {
	compare := func(i, j int) int { return s.keys[i].compare(&s.keys[j], bucket) }
	slices.SortFunc(s.order, compare)
	for n := 0; n < len(s.order); {
		first := s.order[n]
		sum := &s.sums[first]
		n++
		if n < len(s.order) && compare(first, s.order[n]) == 0 {
			whole := *sum
			for ; n < len(s.order) && compare(first, s.order[n]) == 0; n++ {
				whole.addSum(&s.sums[s.order[n]])
			}
			sum = &whole
		}
		g.add(&sumRow{&s.keys[first], sum})
	}
}

// minuteOfArrival and quarterOfEvent are the buckets of arrivals and of usage_15m.
func minuteOfArrival(k *sumKey) int64 { return k.minute }
func quarterOfEvent(k *sumKey) int64  { return k.quarter }

// compare is the order in which the rows of a table with such buckets are written.
func (k *sumKey) compare(other *sumKey, bucket func(*sumKey) int64) int {
	// cmp.Or would compare all of the names each time.
	if c := cmp.Or(compareIDs(k.account, other.account), cmp.Compare(bucket(k), bucket(other))); c != 0 {
		return c
	}
	if c := cmp.Compare(k.agent, other.agent); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(k.provider, other.provider), cmp.Compare(k.model, other.model))
}

// addSpend adds the spend of each agent and, under the empty name, of each account.
func (s *sums) addSpend(spend tally[spendKey, spendSum]) {
	for i := range s.keys {
		k, sum := &s.keys[i], &s.sums[i]
		for _, agent := range [...]string{k.agent, ""} {
			spent := spend.at(spendKey{k.account, agent, k.minute - k.minute%bucketSeconds})
			spent.cost.AddSum(sum.spent)
			spent.events += sum.events
		}
	}
}

// sumRow is a row of arrivals or of usage_15m.
type sumRow = entry[*sumKey, eventSum]

// measures are the columns that arrivals and usage_15m share.
func measures() []column[sumRow] {
	return []column[sumRow]{
		{"account_id", typeUUID, func(a *array, r *sumRow) { a.id(r.key.account) }},
		{"agent", typeText, func(a *array, r *sumRow) { a.text(r.key.agent) }},
		{"provider", typeText, func(a *array, r *sumRow) { a.text(r.key.provider) }},
		{"model", typeText, func(a *array, r *sumRow) { a.text(r.key.model) }},
		{"events", typeInt8, func(a *array, r *sumRow) { a.int8(r.sum.events) }},
		{"errors", typeInt8, func(a *array, r *sumRow) { a.int8(r.sum.errors) }},
		{"unpriced_events", typeInt8, func(a *array, r *sumRow) { a.int8(r.sum.unpriced) }},
		{"input_tokens", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.input) }},
		{"output_tokens", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.output) }},
		{"cost_nano_usd", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.spent) }},
		{"latency_histogram", typeNumeric, func(a *array, r *sumRow) { a.histogram(&r.sum.latencies) }},
	}
}

// newArrivals returns the columns of table arrivals: a row for each minute of arrival, agent, provider and model.
func newArrivals() *group[sumRow] {
	return newGroup("arrivals", append(measures(),
		column[sumRow]{"bucket", typeTimestamptz, func(a *array, r *sumRow) { a.seconds(r.key.minute) }}))
}

// newUsage returns the columns of table usage_15m: a row for each quarter hour of the events' own time, agent, model and provider.
func newUsage() *group[sumRow] {
	return newGroup("usage", append(measures(), []column[sumRow]{
		{"bucket", typeTimestamptz, func(a *array, r *sumRow) { a.seconds(r.key.quarter) }},
		{"cache_read_tokens", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.cacheRead) }},
		{"cache_write_tokens", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.cacheWrite) }},
		{"reasoning_tokens", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.reasoning) }},
		{"latency_count", typeInt8, func(a *array, r *sumRow) { a.int8(r.sum.latencyCount) }},
		{"latency_sum_ms", typeNumeric, func(a *array, r *sumRow) { a.numeric(r.sum.latency) }},
		{"latency_max_ms", typeInt8, func(a *array, r *sumRow) { a.latency(r.sum.latencyMax) }},
		{"first_ts", typeTimestamptz, func(a *array, r *sumRow) { a.time(r.sum.first) }},
		{"last_ts", typeTimestamptz, func(a *array, r *sumRow) { a.time(r.sum.last) }},
	}...))
}
