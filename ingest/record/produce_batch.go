package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema/wire"
)

// batch is the events of one request that are being written to Kafka.
type batch struct {
	producer *producer
	// memory is kept until all records are acknowledged or given up.
	memory *Memory
	// pending counts the records without a result, and one more until all were handed to the client.
	pending atomic.Int64
	// failed says that Kafka did not take all.
	failed atomic.Bool
	// done receives true when nothing is pending and false when the timeout is over. It has room for both, so that the
	// later one blocks nobody.
	done  chan bool
	timer *time.Timer
	// writes are used again; the first used of them are of this batch.
	writes []*write
	used   int
	// buf holds the keys and values of the records.
	buf []byte
}

// write is one event that is being written.
type write struct {
	batch  *batch
	event  Event // a copy, because the request may be answered before Kafka has answered
	index  int   // of the event in its request
	record kgo.Record

	// finish is the method complete, bound once.
	finish func(*kgo.Record, error)
	// err is the result, once completed.
	err       error
	completed atomic.Bool
}

// batches are used again, with their memory, once nothing of them is pending.
var batches = sync.Pool{New: func() any {
	b := &batch{done: make(chan bool, 2)}
	b.timer = time.AfterFunc(time.Hour, func() { b.done <- false })
	b.timer.Stop()
	return b
}}

func newBatch(p *producer, m *Memory) *batch {
	b := batches.Get().(*batch)
	b.producer, b.memory = p, m
	m.retain()
	b.pending.Store(1)
	return b
}

// usualRecord is the size in bytes of a record without metadata, unless its texts are long.
const usualRecord = 512

// versionHeaders is shared by all records; franz-go only reads it.
var versionHeaders = []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}}

// enqueue hands the events that are to be written to Kafka's client.
func (b *batch) enqueue(events []Event) {
	size := 0
	for i := range events {
		if events[i].toWrite() {
			size += usualRecord + len(events[i].Metadata)
		}
	}
	// At once, because a buffer that is outgrown is kept alive by the records in it.
	b.buf = slices.Grow(b.buf, size)
	for i := range events {
		if events[i].toWrite() {
			b.add(events[i], i)
		}
	}
	for _, w := range b.writes[:b.used] {
		b.producer.client.TryProduce(context.Background(), &w.record, w.finish)
	}
	b.completeOne()
}

// add encodes the record of an event.
func (b *batch) add(e Event, index int) {
	if b.used == len(b.writes) {
		more := make([]write, max(1, len(b.writes)))
		for i := range more {
			more[i].batch = b
			more[i].finish = more[i].complete
			b.writes = append(b.writes, &more[i])
		}
	}
	w := b.writes[b.used]
	b.used++
	b.pending.Add(1)
	w.event, w.index = e, index
	w.completed.Store(false)
	start := len(b.buf)
	b.buf = wire.AppendKey(b.buf, e.Event)
	value := len(b.buf)
	b.buf = wire.Append(b.buf, e.Event)
	w.record = kgo.Record{
		Key: b.buf[start:value:value], Value: b.buf[value:len(b.buf):len(b.buf)], Headers: versionHeaders, Timestamp: e.ReceivedAt,
	}
}

// complete receives Kafka's answer. The charge of an event that is certainly not recorded is refunded, and the key of
// one that is recorded is cached, also when nobody waits any more.
func (w *write) complete(_ *kgo.Record, err error) {
	if err = endCharge(w.event.charge, err); err != nil {
		w.batch.failed.Store(true)
	}
	w.batch.producer.keys.complete(&w.event, produceError(err))
	w.event, w.err = Event{}, err // Spare writes keep no events alive.
	w.completed.Store(true)
	w.batch.completeOne()
}

// endCharge ends the charge of an event that Kafka has answered, and returns the error of the event.
func endCharge(c *lease.Charge, err error) error {
	switch {
	case err == nil && c.Confirm():
		return nil
	case err == nil:
		return errTooLate
	case errors.Is(err, kgo.ErrMaxBuffered):
		c.Refund()
	case errors.Is(err, kgo.ErrClientClosed):
		// What was sent and not answered may still reach Kafka: the charge stays.
	default:
		c.Taint()
	}
	return err
}

// completeOne counts a result. The last one frees the memory of the request.
func (b *batch) completeOne() {
	if b.pending.Add(-1) == 0 {
		b.memory.Release()
		b.done <- true
	}
}

// wait reports whether all results came in time.
func (b *batch) wait(timeout time.Duration) bool {
	b.timer.Reset(timeout)
	return <-b.done
}

// result sets the errors of the events that are not acknowledged so far, and returns one of them.
func (b *batch) result(events []Event) (failed error) {
	for _, w := range b.writes[:b.used] {
		err := errTimeout
		if w.completed.Load() {
			err = produceError(w.err)
		}
		if err != nil {
			events[w.index].Err, failed = err, err
		}
	}
	return failed
}

// maxKept is the largest buffer, in bytes, that is used again, so that large events do not hold memory for ever.
const maxKept = 256 << 10

// release makes b free for another request, unless its timeout is over just now.
func (b *batch) release() {
	if !b.timer.Stop() || cap(b.buf) > maxKept {
		return
	}
	b.failed.Store(false)
	b.producer, b.memory, b.used, b.buf = nil, nil, 0, b.buf[:0]
	batches.Put(b)
}
