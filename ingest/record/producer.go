package record

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/topic"
)

// What can go wrong with writing an event. The client should send it again in any case; only errFull and errRefused mean
// that it is certainly not recorded.
var (
	errFull    = errors.New("too many events wait for kafka")
	errTimeout = errors.New("kafka did not acknowledge in time")
	errRefused = errors.New("kafka refused the event")
)

// errTooLate means that Kafka has an event whose lease of a cap may not be this replica's any more. The processor decides
// whether it counts, and the client has to send it again.
var errTooLate = errors.New("kafka acknowledged too late for a capped event")

// linger is how long an event waits for others of its partition. At a few dozen
// connections it more than halves what a fast broker spends on an event; a slow one is
// waited for anyway.
const linger = time.Millisecond

// ProducerOptions returns the franz-go options for writing to the topic; the caller adds brokers and credentials.
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
		// Capacity bounds the bytes; this bound is never reached before that one.
		kgo.MaxBufferedRecords(1 << 20),
		// One record that times out fails all that wait behind it in its
		// partition, so this is much longer than a request waits.
		kgo.RecordDeliveryTimeout(30 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
	}
}

// producer writes events to Kafka and waits for the acknowledgement.
type producer struct {
	client  *kgo.Client
	timeout time.Duration
	keys    *idempotencyCache
	metrics *metrics
	health  *writeHealth
}

// produce writes the events that have no error and are no duplicates, and waits until all in-sync replicas have them,
// or the timeout is over. Those that are not acknowledged get an error. settled says that Kafka's client has finished
// with all of them; m is kept until then.
//
// The context of the request is kept out on purpose: one that ends would fail not only its own record but also others
// in the same batch of the client. A record goes on even after errTimeout; a retry with the same idempotency key is
// recorded once.
func (p *producer) produce(events []Event, m *Memory) (settled bool) {
	if !slices.ContainsFunc(events, func(e Event) bool { return e.toWrite() }) {
		return true
	}
	start := time.Now()
	b := newBatch(p, m)
	b.enqueue(events)
	settled = b.wait(p.timeout)
	if settled && !b.failed.Load() {
		p.health.succeeded()
	} else if err := b.result(events); err != nil {
		p.health.failed(err)
	}
	if settled {
		b.release()
	}
	p.metrics.produceDuration.Observe(time.Since(start).Seconds())
	return settled
}

func produceError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return errFull
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, errTooLate):
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}
