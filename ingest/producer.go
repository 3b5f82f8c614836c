package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/topic"
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

// errTooLate means that Kafka has an event whose lease of a cap may not be this replica's any more. The processor decides
// about it, and the client has to send it again.
var errTooLate = errors.New("kafka acknowledged too late for a capped event")

// linger is how long an event waits for others of its partition. At a few dozen
// connections it more than halves what a fast broker spends on an event; a slow one is
// waited for anyway.
const linger = time.Millisecond

// ProducerOptions are the franz-go options that a Producer to the topic needs; the
// caller adds brokers and credentials.
func ProducerOptions(name string) []kgo.Opt {
	return []kgo.Opt{
		kgo.DefaultProduceTopic(name),
		// acks=all and idempotent writes are franz-go's defaults; named here
		// because everything stands on them.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger),
		// Named, because outlay check compares it with what the topic takes.
		kgo.ProducerBatchMaxBytes(topic.LargestBatch),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// They are compressed with tables of 8 MiB that stay: more than all the
		// rest. What the client does is in our own metrics.
		kgo.DisableClientMetrics(),
		// Bytes are bounded by room; this bound is never the first one.
		kgo.MaxBufferedRecords(1 << 20),
		// One record that times out fails all that wait behind it in its
		// partition, so this is much longer than a request waits.
		kgo.RecordDeliveryTimeout(30 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
	}
}

// Producer writes events to Kafka and waits for the acknowledgement.
type Producer struct {
	client  *kgo.Client
	timeout time.Duration
	recent  *recent
	metrics *metrics
	writes  *writes
}

func newProducer(client *kgo.Client, cfg Config, known *recent, m *metrics, w *writes) *Producer {
	return &Producer{client: client, timeout: cfg.ProduceTimeout, recent: known, metrics: m, writes: w}
}

// versionHeaders is shared by all records; franz-go only reads it.
var versionHeaders = []kgo.RecordHeader{{Key: wire.VersionHeader, Value: []byte(wire.Version)}}

// Produce writes the events that have no error and are no duplicates, and waits
// until all in-sync replicas have them, or the timeout is over. Those that are
// not in get an error.
//
// The context of the request is kept out on purpose: one that ends would fail
// not only its own record but also others in the same batch. A record goes on
// even after ErrTimeout; a retry with the same idempotency key is recorded once.
// settled says that none goes on. h is held until then.
func (p *Producer) Produce(outcomes []outcome, h *hold) (settled bool) {
	start := time.Now()
	s := shipments.Get().(*shipment)
	s.producer, s.hold = p, h
	h.share()
	s.left.Store(1) // for this function, so that the count ends when all are sent
	s.grow(outcomes)
	for i := range outcomes {
		if o := &outcomes[i]; o.err == nil && !o.duplicate {
			s.load(o.admission, i)
		}
	}
	for _, d := range s.deliveries[:s.sent] {
		p.client.TryProduce(context.Background(), &d.record, d.finish)
	}
	s.arrived()
	settled = s.wait(p.timeout)
	if settled && !s.failed.Load() {
		if s.sent > 0 {
			p.writes.succeeded()
		}
	} else {
		var failed error
		for _, d := range s.deliveries[:s.sent] {
			if err := d.sofar(); err != nil {
				outcomes[d.index].err, failed = err, err
			}
		}
		if failed != nil {
			p.writes.failed(failed)
		}
	}
	if settled {
		s.release()
	}
	p.metrics.produceDuration.Observe(time.Since(start).Seconds())
	return settled
}

func produceError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return ErrFull
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, errTooLate):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
