package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// What Produce can say besides nil. All of them mean that the client should send
// the event again; only ErrFull and ErrRefused say that it was surely not
// recorded.
var (
	ErrFull    = errors.New("too many events wait for kafka")
	ErrTimeout = errors.New("kafka did not acknowledge in time")
	ErrRefused = errors.New("kafka refused the event")
)

// ProducerOptions are the franz-go options that a Producer to topic needs; the
// caller adds brokers and credentials.
func ProducerOptions(topic string) []kgo.Opt {
	return []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		// acks=all and idempotent writes are franz-go's defaults; named here
		// because everything stands on them.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// Concurrent requests fill batches by themselves; waiting only adds
		// latency.
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// Bytes are bounded by Producer; this bound is never the first one.
		kgo.MaxBufferedRecords(1 << 20),
		// One record that times out fails all that wait behind it in its
		// partition, so this is much longer than a request waits.
		kgo.RecordDeliveryTimeout(30 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
	}
}

// Producer writes events to Kafka and waits for the acknowledgement.
type Producer struct {
	client   *kgo.Client
	timeout  time.Duration
	maxBytes int64
	buffered atomic.Int64
	recent   *recent
	metrics  *metrics
}

func newProducer(client *kgo.Client, cfg Config, known *recent, m *metrics) *Producer {
	p := &Producer{client: client, timeout: cfg.ProduceTimeout, maxBytes: cfg.MaxBufferedBytes, recent: known, metrics: m}
	m.bufferedBytes(func() float64 { return float64(p.buffered.Load()) })
	return p
}

// versionHeaders is shared by all records; franz-go only reads it.
var versionHeaders = []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}}

// acknowledgement is what Kafka said of one event of a request.
type acknowledgement struct {
	index int
	err   error
}

// waiter is what one request waits with. All its answers have come when it is
// given back.
type waiter struct {
	answers chan acknowledgement
	timer   *time.Timer
}

var waiters = sync.Pool{New: func() any {
	w := &waiter{timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}}

// room returns the channel with room for n answers, so that one that comes after
// the timeout blocks nobody.
func (w *waiter) room(n int) chan acknowledgement {
	if cap(w.answers) < n {
		w.answers = make(chan acknowledgement, n)
	}
	return w.answers
}

// Produce writes events and waits until all in-sync replicas have them, or the
// timeout is over. It returns one error for each event, nil for those that are in.
//
// The context of the request is kept out on purpose: one that ends would fail
// not only its own record but also others in the same batch. A record goes on
// even after ErrTimeout; a retry with the same idempotency key is recorded once.
func (p *Producer) Produce(admissions ...admission) []error {
	start := time.Now()
	errs := make([]error, len(admissions))
	w := waiters.Get().(*waiter)
	answers := w.room(len(admissions))
	waiting := 0
	for i, a := range admissions {
		if a.duplicate {
			continue
		}
		if errs[i] = p.send(a, i, answers); errs[i] == nil {
			errs[i] = ErrTimeout
			waiting++
		}
	}
	w.timer.Reset(p.timeout)
	for ; waiting > 0 && w != nil; waiting-- {
		select {
		case a := <-answers:
			errs[a.index] = produceError(a.err)
		case <-w.timer.C:
			// Answers may still come: this waiter is not used again.
			w = nil
		}
	}
	if w != nil {
		w.timer.Stop()
		waiters.Put(w)
	}
	p.metrics.produceDuration.Observe(time.Since(start).Seconds())
	return errs
}

// send hands one event to the Kafka client. What its caps were charged with goes
// back if it was surely not recorded, and its key is remembered once it is, also
// when nobody waits any more.
func (p *Producer) send(a admission, index int, answers chan<- acknowledgement) error {
	record, size, err := p.record(a.event)
	if err != nil {
		a.charge.Refund()
		return err
	}
	p.client.TryProduce(context.Background(), record, func(_ *kgo.Record, err error) {
		p.buffered.Add(-size)
		switch {
		case err == nil:
			p.recent.remember(a)
		case errors.Is(err, kgo.ErrMaxBuffered):
			a.charge.Refund()
		default:
			a.charge.Taint()
		}
		answers <- acknowledgement{index, err}
	})
	return nil
}

// record encodes e and reserves its bytes.
func (p *Producer) record(e *schema.Event) (*kgo.Record, int64, error) {
	buf := make([]byte, 0, 256+len(e.Metadata)+len(e.Breakdown)+len(e.Agent)+len(e.SessionID)*2)
	buf = wire.AppendKey(buf, e)
	keyLength := len(buf)
	buf = wire.Append(buf, e)
	size := int64(len(buf))
	if p.buffered.Add(size) > p.maxBytes {
		p.buffered.Add(-size)
		return nil, 0, ErrFull
	}
	return &kgo.Record{
		Key:     buf[:keyLength:keyLength],
		Value:   buf[keyLength:],
		Headers: versionHeaders,
	}, size, nil
}

func produceError(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrTimeout):
		return err
	case errors.Is(err, kgo.ErrMaxBuffered):
		return ErrFull
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
