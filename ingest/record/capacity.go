package record

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema/problem"
)

// Capacity bounds how many requests are handled at once and the memory that they hold, so that it stays bounded while
// Kafka does not answer. The memory of a request counts from before its body is read until it is answered and Kafka's
// client has finished with all of its events.
type Capacity struct {
	maxRequests, maxBytes int64
	requests, bytes       atomic.Int64
	// tooMany and full count what was refused; health notes the latter.
	tooMany, full prometheus.Counter
	health        *writeHealth
	// peak is the largest value of bytes since memory was returned to the system.
	peak atomic.Int64
}

func newCapacity(cfg Config, m *metrics, w *writeHealth) *Capacity {
	c := &Capacity{
		maxRequests: cfg.MaxRequests, maxBytes: cfg.MaxBufferedBytes, health: w,
		tooMany: m.produceErrors.WithLabelValues("too_many_requests"), full: m.produceErrors.WithLabelValues("buffer_full"),
	}
	m.capacity(c)
	return c
}

// ErrBusy is the response to a request that was not read because too many are being handled.
var ErrBusy = &problem.Problem{
	Code:       problem.Internal,
	Detail:     "Too many requests wait to be recorded. The event was not recorded: send it again with growing waits.",
	RetryAfter: 2 * time.Second,
}

// Enter counts a request until Leave. It returns ErrBusy, and counts nothing, when too many are being handled.
func (c *Capacity) Enter() error {
	if c.requests.Add(1) > c.maxRequests {
		c.Leave()
		c.tooMany.Inc()
		return ErrBusy
	}
	return nil
}

// Leave ends what Enter began.
func (c *Capacity) Leave() { c.requests.Add(-1) }

// Memory is the memory of one request. It belongs to the handler, and to the batch of records once there is one: the
// last of them to release it frees it.
type Memory struct {
	capacity *Capacity
	bytes    int64
	owners   atomic.Int32
}

// Init makes m the memory of a new request that holds nothing yet and belongs to the caller.
func (m *Memory) Init(c *Capacity) {
	m.capacity = c
	m.owners.Store(1)
}

// Reserve counts n more bytes, before they are used. It returns ErrBusy when there is no room for them.
func (m *Memory) Reserve(n int64) error {
	c := m.capacity
	used := c.bytes.Add(n)
	if used > c.maxBytes {
		c.bytes.Add(-n)
		c.full.Inc()
		c.health.failed(errFull)
		return ErrBusy
	}
	m.bytes += n
	for peak := c.peak.Load(); used > peak && !c.peak.CompareAndSwap(peak, used); {
		peak = c.peak.Load()
	}
	return nil
}

// retain gives m one more owner.
func (m *Memory) retain() { m.owners.Add(1) }

// Release ends one ownership.
func (m *Memory) Release() {
	if m.owners.Add(-1) == 0 {
		m.capacity.bytes.Add(-m.bytes)
	}
}

const (
	// returnInterval is how often it is checked whether memory can be returned to the system.
	returnInterval = 10 * time.Second
	// returnShare is the share of the capacity, as its reciprocal, that must have been in use and be free again.
	returnShare = 8
)

// ReturnMemory returns memory to the system after Kafka did not answer for a while, until ctx ends: the runtime would
// keep it for minutes on an idle machine.
func (c *Capacity) ReturnMemory(ctx context.Context) {
	tick := time.NewTicker(returnInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if threshold := c.maxBytes / returnShare; c.peak.Load() > threshold && c.bytes.Load() <= threshold {
			c.peak.Store(0)
			debug.FreeOSMemory()
		}
	}
}
