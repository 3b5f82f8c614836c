package ingest

import (
	"context"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema/problem"
)

// What a request needs of the room. Each byte of a body counts for the body, for what is
// read of it and for its record.
const (
	requestBytes = 16 << 10 // its connection's buffers, its goroutine, and a small event
	gzipBytes    = 48 << 10 // the decompressor
	eventBytes   = 1 << 10  // of a batch, besides its texts
	copies       = 3
)

// room bounds the memory of the requests under way, so that it stays bounded while Kafka
// stands still. What a request holds counts from before its body is read until it is
// answered and all of its events are settled.
type room struct {
	mostRequests, mostBytes int64
	requests, bytes         atomic.Int64
	// tooMany and full count what was refused; writes notes the latter.
	tooMany, full prometheus.Counter
	writes        *writes
	// peak is the most bytes since memory was given back.
	peak atomic.Int64
}

func newRoom(cfg Config, m *metrics, w *writes) *room {
	r := &room{
		mostRequests: cfg.MaxRequests, mostBytes: cfg.MaxBufferedBytes, writes: w,
		tooMany: m.produceErrors.WithLabelValues("too_many_requests"), full: m.produceErrors.WithLabelValues("buffer_full"),
	}
	m.room(r)
	return r
}

// errBusy is the answer to a request of which nothing was read.
var errBusy = &problem.Problem{
	Code:       problem.Internal,
	Detail:     "Too many requests wait to be recorded. The event was not recorded: send it again with growing waits.",
	RetryAfter: 2 * time.Second,
}

// enter counts a request until it leaves. It returns errBusy when too many are under way.
func (r *room) enter() error {
	if r.requests.Add(1) > r.mostRequests {
		r.leave()
		r.tooMany.Inc()
		return errBusy
	}
	return nil
}

func (r *room) leave() { r.requests.Add(-1) }

// hold is what one request holds. It belongs to the handler, and to the batch of records
// once there is one: the last to release it gives back the room.
type hold struct {
	room   *room
	bytes  int64
	owners atomic.Int32
}

func (r *room) hold() *hold {
	h := &hold{room: r}
	h.owners.Store(1)
	return h
}

// take counts n bytes more, before they are used. It returns errBusy when there is no
// room for them.
func (h *hold) take(n int64) error {
	used := h.room.bytes.Add(n)
	if used > h.room.mostBytes {
		h.room.bytes.Add(-n)
		h.room.full.Inc()
		h.room.writes.failed(ErrFull)
		return errBusy
	}
	h.bytes += n
	for peak := h.room.peak.Load(); used > peak && !h.room.peak.CompareAndSwap(peak, used); {
		peak = h.room.peak.Load()
	}
	return nil
}

// share gives the hold one more owner.
func (h *hold) share() { h.owners.Add(1) }

func (h *hold) release() {
	if h.owners.Add(-1) == 0 {
		h.room.bytes.Add(-h.bytes)
	}
}

// counted reads a body whose size is not known and counts what comes.
type counted struct {
	io.Reader
	hold *hold
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if full := c.hold.take(int64(n) * copies); full != nil {
		return 0, full
	}
	return n, err
}

const (
	// giveBackEvery is how often it is looked whether memory is to be given back.
	giveBackEvery = 10 * time.Second
	// muchOf is which part of the room, once used and free again, is worth it.
	muchOf = 8
)

// giveBack gives memory back to the system after Kafka stood still, until ctx ends: the
// runtime would keep it for minutes on an idle machine.
func (r *room) giveBack(ctx context.Context) {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if much := r.mostBytes / muchOf; r.peak.Load() > much && r.bytes.Load() <= much {
			r.peak.Store(0)
			debug.FreeOSMemory()
		}
	}
}
