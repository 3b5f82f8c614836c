package ingest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// delivery is one event on its way to Kafka.
type delivery struct {
	admission
	shipment *shipment
	index    int // of the event in its request
	record   kgo.Record

	// finish is settle, bound once.
	finish func(*kgo.Record, error)
	// err is what Kafka said, once settled.
	err     error
	settled atomic.Bool
}

// shipment is what one request has on its way to Kafka, and what it waits with.
type shipment struct {
	producer *Producer
	left     atomic.Int64
	// failed says that Kafka did not take all.
	failed atomic.Bool
	// done gets true when nothing is left and false when the time is over. It
	// has room for both, so that who comes late blocks nobody.
	done  chan bool
	timer *time.Timer
	// deliveries are used again; the first sent of them are under way.
	deliveries []*delivery
	sent       int
	// buf has the keys and values of their records.
	buf []byte
	// hold is released when all records are settled.
	hold *hold
}

// shipments are used again, with their memory. The request that waits for one gives
// it back when all of its own are settled: nobody looks at it then.
var shipments = sync.Pool{New: func() any {
	s := &shipment{done: make(chan bool, 2)}
	s.timer = time.AfterFunc(time.Hour, func() { s.done <- false })
	s.timer.Stop()
	return s
}}

// delivery returns the next one that is free, without having sent it.
func (s *shipment) delivery() *delivery {
	if s.sent == len(s.deliveries) {
		more := make([]delivery, max(1, len(s.deliveries)))
		for i := range more {
			more[i].shipment = s
			more[i].finish = more[i].settle
			s.deliveries = append(s.deliveries, &more[i])
		}
	}
	return s.deliveries[s.sent]
}

// arrived counts an acknowledgement. The last one frees the room of all.
func (s *shipment) arrived() {
	if s.left.Add(-1) == 0 {
		s.hold.release()
		s.done <- true
	}
}

// wait reports whether everything arrived in time.
func (s *shipment) wait(timeout time.Duration) bool {
	s.timer.Reset(timeout)
	return <-s.done
}

// release gives s back once everything has arrived, unless its time is over just
// now.
func (s *shipment) release() {
	if !s.timer.Stop() || cap(s.buf) > maxKept {
		return
	}
	s.failed.Store(false)
	s.producer, s.hold, s.sent, s.buf = nil, nil, 0, s.buf[:0]
	shipments.Put(s)
}

// usualRecord is what a record has besides metadata, in bytes, unless its texts are long.
const usualRecord = 512

// grow makes room for the records of the events at once: memory that is outgrown is kept
// by the records in it.
func (s *shipment) grow(outcomes []outcome) {
	size := 0
	for i := range outcomes {
		if o := &outcomes[i]; o.err == nil && !o.duplicate {
			size += usualRecord + len(o.event.Metadata)
		}
	}
	s.buf = slices.Grow(s.buf, size)
}

// load puts one event among those that go to Kafka.
func (s *shipment) load(a admission, index int) {
	d := s.delivery()
	d.encode(a.event)
	d.admission, d.index = a, index
	d.settled.Store(false)
	s.left.Add(1)
	s.sent++
}

// encode makes the record of an event.
func (d *delivery) encode(e *schema.Event) {
	buf := d.shipment.buf
	start := len(buf)
	buf = wire.AppendKey(buf, e)
	key := len(buf)
	buf = wire.Append(buf, e)
	d.shipment.buf = buf
	d.record = kgo.Record{Key: buf[start:key:key], Value: buf[key:len(buf):len(buf)], Headers: versionHeaders, Timestamp: e.ReceivedAt}
}

// settle takes what Kafka said. What the caps were charged with goes back if the
// event was surely not recorded, and its key is remembered once it is, also when
// nobody waits any more.
func (d *delivery) settle(_ *kgo.Record, err error) {
	if err = settleCharge(d.charge, err); err != nil {
		d.shipment.failed.Store(true)
	}
	if d.flight != nil {
		d.shipment.producer.recent.land(d.admission, produceError(err))
	}
	// A delivery may long be spare: it keeps nobody's event.
	d.admission, d.err = admission{}, err
	d.settled.Store(true)
	d.shipment.arrived()
}

// settleCharge ends the charge of an event that Kafka has answered about, and returns the error of the event.
func settleCharge(c *lease.Charge, err error) error {
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

// sofar is what is known of an event that nobody waits for any more.
func (d *delivery) sofar() error {
	if d.settled.Load() {
		return produceError(d.err)
	}
	return ErrTimeout
}
