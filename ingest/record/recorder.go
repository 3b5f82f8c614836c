package record

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/replay"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// Caps decides whether the caps of an agent and its account allow an event; lease.Gate is the real one.
type Caps interface {
	// Admit charges the caps and notes their leases in the event. The charge is nil for an event without a cap.
	Admit(ctx context.Context, e *schema.Event) (*lease.Charge, error)
	// Refused counts an event that was answered 402.
	Refused(e *schema.Event)
}

// Replays distinguishes events that are sent again from new ones; replay.Checker is the real one.
type Replays interface {
	Check(ctx context.Context, keys []replay.Key) []replay.Answer
}

// Config bounds what a Recorder holds and how long it waits.
type Config struct {
	ProduceTimeout                time.Duration
	MaxRequests, MaxBufferedBytes int64
	CachedKeys                    int
}

// Deps are what a Recorder works with; the caller owns them.
type Deps struct {
	Caps    Caps
	Replays Replays
	// Kafka was made with ProducerOptions.
	Kafka   *kgo.Client
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Recorder records events. It is safe for concurrent use.
type Recorder struct {
	*Capacity
	caps     Caps
	replays  Replays
	keys     *idempotencyCache
	producer *producer
	metrics  *metrics
	timeout  time.Duration
}

// New returns a Recorder.
func New(cfg Config, d Deps) *Recorder {
	m := newMetrics(d.Metrics)
	keys := newIdempotencyCache(cfg.CachedKeys, d.Now)
	m.cachedKeys(keys)
	w := &writeHealth{log: d.Log, now: d.Now}
	return &Recorder{
		Capacity: newCapacity(cfg, m, w), caps: d.Caps, replays: d.Replays, keys: keys, metrics: m, timeout: cfg.ProduceTimeout,
		producer: &producer{client: d.Kafka, timeout: cfg.ProduceTimeout, keys: keys, metrics: m, health: w},
	}
}

// Seed returns the seed of fingerprints. It is the same for the life of the Recorder.
func (r *Recorder) Seed() maphash.Seed { return r.keys.seed }

// Ready returns nil unless the last write to Kafka has failed, not long ago.
func (r *Recorder) Ready() error { return r.producer.health.Ready() }

// Record records the events that have no error, and sets the errors of those that are not recorded. m is the memory
// of their request. Record reports whether nothing refers to the events any more; after a timeout Kafka's client does.
func (r *Recorder) Record(ctx context.Context, events []Event, m *Memory) (settled bool) {
	r.admitAll(ctx, events)
	deadline := time.Now().Add(r.timeout)
	settled = r.producer.produce(events, m)
	for i := range events {
		if e := &events[i]; e.Err == nil && e.Duplicate {
			e.Err = e.wait(deadline)
		}
	}
	r.count(events)
	return settled
}

// admitAll decides which events are to be written: it finds duplicates, charges the caps of the others, and asks about
// those that a cap refuses whether another replica has recorded them.
func (r *Recorder) admitAll(ctx context.Context, events []Event) {
	for i := range events {
		if e := &events[i]; e.Err == nil {
			e.Err = r.admit(ctx, e)
		}
	}
	r.confirm(ctx, events)
}

// admit charges the caps of an event, unless it is recorded already or being recorded. The key of an event that a cap
// refuses stays in flight until confirm.
func (r *Recorder) admit(ctx context.Context, e *Event) error {
	if e.IdempotencyKey == "" {
		return r.charge(ctx, e)
	}
	f, mine, err := r.keys.begin(e.ID, e.Fingerprint)
	if err != nil {
		return err
	}
	if e.inflight, e.Duplicate = f, !mine; e.Duplicate {
		return nil
	}
	err = r.charge(ctx, e)
	if err != nil && !capReached(err) {
		r.keys.complete(e, err)
	}
	return err
}

// charge charges the caps of a valid event.
func (r *Recorder) charge(ctx context.Context, e *Event) (err error) {
	if e.Invalid != nil {
		return e.Invalid
	}
	if e.charge, err = r.caps.Admit(ctx, e.Event); err != nil {
		return CapProblem(e.Event, err)
	}
	return nil
}

// count counts the events by what became of them, and replaces the errors of writing by the response to them.
func (r *Recorder) count(events []Event) {
	calculated := 0 // Counted at once: nearly all are.
	for i := range events {
		e := &events[i]
		if e.Err != nil {
			if reason := produceErrorReason(e.Err); reason != "" {
				r.metrics.produceErrors.WithLabelValues(reason).Inc()
				e.Err = errNotRecorded
			}
			continue
		}
		if len(e.Warnings) > 0 {
			r.metrics.warnings.Add(float64(len(e.Warnings)))
		}
		switch {
		case e.Duplicate:
			r.metrics.duplicates.Inc()
		case e.Source == schema.CostCalculated:
			calculated++
		default:
			r.metrics.event(e.Source)
		}
	}
	r.metrics.calculatedEvents(calculated)
}

// errNotRecorded is the response when Kafka did not acknowledge: nobody knows whether the event is recorded, so the
// client is asked to send it again.
var errNotRecorded = &problem.Problem{
	Code: problem.Internal,
	Detail: "The event could not be confirmed in time. Send it again with growing waits; " +
		"with an idempotency_key it is recorded once, however often it is sent.",
	RetryAfter: 2 * time.Second,
}

// produceErrorReason is the metric's label for an error of writing, "" for others.
func produceErrorReason(err error) string {
	switch {
	case errors.Is(err, errFull):
		return "buffer_full"
	case errors.Is(err, errTimeout):
		return "timeout"
	case errors.Is(err, errRefused):
		return "refused"
	}
	return ""
}
