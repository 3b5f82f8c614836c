package usage

// Measures are what a bucket, a group or a whole answer adds up to. The zero
// Measures are those of no event. Do not copy Measures that are still added to:
// histograms share memory.
type Measures struct {
	Events          int64
	Errors          int64
	UnpricedEvents  int64
	InputTokens     Sum
	OutputTokens    Sum
	CacheReadTokens Sum
	CostUSD         USD
	LatencyCount    int64
	LatencySumMS    Sum
	// LatencyMaxMS is 0 without any latency.
	LatencyMaxMS int64
	Latencies    Histogram
}

// Add adds other to m.
func (m *Measures) Add(other *Measures) {
	m.Events += other.Events
	m.Errors += other.Errors
	m.UnpricedEvents += other.UnpricedEvents
	m.InputTokens.Add(&other.InputTokens)
	m.OutputTokens.Add(&other.OutputTokens)
	m.CacheReadTokens.Add(&other.CacheReadTokens)
	m.CostUSD.Add(&other.CostUSD.Sum)
	m.LatencyCount += other.LatencyCount
	m.LatencySumMS.Add(&other.LatencySumMS)
	m.LatencyMaxMS = max(m.LatencyMaxMS, other.LatencyMaxMS)
	m.Latencies.Add(&other.Latencies)
}

// Latency is how long calls took, in milliseconds; nil where no call said.
type Latency struct {
	Avg *int64 `json:"avg_latency_ms"`
	P50 *int64 `json:"p50_latency_ms"`
	P95 *int64 `json:"p95_latency_ms"`
	P99 *int64 `json:"p99_latency_ms"`
}

// Latency returns the average and the percentiles of m.
func (m *Measures) Latency() Latency {
	if m.LatencyCount == 0 {
		return Latency{}
	}
	v := new([4]int64)
	v[0] = m.LatencySumMS.dividedBy(m.LatencyCount)
	latency := Latency{Avg: &v[0]}
	if m.Latencies.total > 0 {
		m.Latencies.percentiles(m.LatencyMaxMS, v[1:], 50, 95, 99)
		latency.P50, latency.P95, latency.P99 = &v[1], &v[2], &v[3]
	}
	return latency
}

// MaxLatencyMS returns the highest latency, or nil where no call said.
func (m *Measures) MaxLatencyMS() *int64 {
	if m.LatencyCount == 0 {
		return nil
	}
	return &m.LatencyMaxMS
}
