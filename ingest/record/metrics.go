package record

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/outlayhq/outlay/schema"
)

// metrics are made once per Recorder. Every label has a closed set of values.
type metrics struct {
	factory         promauto.Factory
	accepted        prometheus.Counter
	acceptedBy      *prometheus.CounterVec
	calculated      prometheus.Counter // of acceptedBy, looked up once
	duplicates      prometheus.Counter
	produceDuration prometheus.Histogram
	produceErrors   *prometheus.CounterVec
	warnings        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		factory: f,
		accepted: f.NewCounter(prometheus.CounterOpts{
			Name: "outlay_ingest_events_accepted_total",
			Help: "Events that Kafka has acknowledged and that were answered 200.",
		}),
		acceptedBy: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_events_accepted_by_source_total",
			Help: "Accepted events by where their cost comes from.",
		}, []string{"cost_source"}),
		duplicates: f.NewCounter(prometheus.CounterOpts{
			Name: "outlay_ingest_events_duplicate_total",
			Help: "Events that were answered 200 from memory because their idempotency key is recorded already; they are not among the accepted.",
		}),
		warnings: f.NewCounter(prometheus.CounterOpts{
			Name: "outlay_ingest_warnings_total",
			Help: "Unknown fields of recorded events that resemble a known one; their senders were warned.",
		}),
		produceDuration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "outlay_ingest_produce_duration_seconds",
			Help:    "Time from handing the events of a request to the Kafka client until they were acknowledged or given up.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		produceErrors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_produce_errors_total",
			Help: "Events that Kafka did not acknowledge to a waiting request, and requests that were not read, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"buffer_full", "too_many_requests", "timeout", "refused"} {
		m.produceErrors.WithLabelValues(reason)
	}
	m.calculated = m.acceptedBy.WithLabelValues(string(schema.CostCalculated))
	return m
}

func (m *metrics) capacity(c *Capacity) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_produce_buffered_bytes",
		Help: "Memory in bytes that requests hold until they are answered and their events are acknowledged or given up.",
	}, func() float64 { return float64(c.bytes.Load()) })
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_requests_under_way",
		Help: "Tracking requests that are being handled.",
	}, func() float64 { return float64(c.requests.Load()) })
}

func (m *metrics) cachedKeys(c *idempotencyCache) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_recent_keys",
		Help: "Idempotency keys held in memory.",
	}, func() float64 { return float64(c.entries()) })
}

// calculatedEvents counts accepted events with a calculated cost, which most have.
func (m *metrics) calculatedEvents(n int) {
	m.accepted.Add(float64(n))
	m.calculated.Add(float64(n))
}

// event counts an accepted event.
func (m *metrics) event(source schema.CostSource) {
	m.accepted.Inc()
	m.acceptedBy.WithLabelValues(string(source)).Inc()
}
