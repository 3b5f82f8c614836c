package ingest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// delivery is one event on its way to Kafka.
type delivery struct {
	admission
	producer *Producer
	waiter   *waiter
	index    int // of the event in its request
	record   kgo.Record
	buf      []byte // key and value of record

	// finish is settle, bound once.
	finish func(*kgo.Record, error)
	// err is what Kafka said, once settled.
	err     error
	settled atomic.Bool
}

// deliveries are used again, with their memory. The request that waits for one
// gives it back when all of its own are settled: nobody looks at it then.
var deliveries = sync.Pool{New: func() any {
	d := new(delivery)
	d.finish = d.settle
	return d
}}

func (d *delivery) release() {
	if cap(d.buf) > maxKept {
		return
	}
	d.admission, d.producer, d.waiter, d.err = admission{}, nil, nil, nil
	d.record = kgo.Record{}
	d.settled.Store(false)
	deliveries.Put(d)
}

// encode makes the record of an event.
func (d *delivery) encode(e *schema.Event) {
	d.buf = wire.AppendKey(d.buf[:0], e)
	key := len(d.buf)
	d.buf = wire.Append(d.buf, e)
	d.record = kgo.Record{Key: d.buf[:key:key], Value: d.buf[key:], Headers: versionHeaders, Timestamp: e.ReceivedAt}
}

// size is how many bytes wait for Kafka.
func (d *delivery) size() int64 { return int64(len(d.buf)) }

// settle takes what Kafka said. What the caps were charged with goes back if the
// event was surely not recorded, and its key is remembered once it is, also when
// nobody waits any more.
func (d *delivery) settle(_ *kgo.Record, err error) {
	d.producer.buffered.Add(-d.size())
	switch {
	case err == nil:
	case errors.Is(err, kgo.ErrMaxBuffered):
		d.charge.Refund()
	default:
		d.charge.Taint()
	}
	d.producer.recent.land(d.admission, produceError(err))
	d.err = err
	d.settled.Store(true)
	d.waiter.arrived()
}

// sofar is what is known of an event that nobody waits for any more.
func (d *delivery) sofar() error {
	if d.settled.Load() {
		return produceError(d.err)
	}
	return ErrTimeout
}
