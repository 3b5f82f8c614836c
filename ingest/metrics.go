package ingest

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// metrics are made once per Server. Every label has a closed set of values.
type metrics struct {
	factory         promauto.Factory
	requests        *prometheus.CounterVec
	accepted        prometheus.Counter
	acceptedBy      *prometheus.CounterVec
	calculated      prometheus.Counter // of acceptedBy, looked up once
	duplicates      prometheus.Counter
	refused         *prometheus.CounterVec
	produceDuration prometheus.Histogram
	produceErrors   *prometheus.CounterVec
	warnings        prometheus.Counter
	spans           spanMetrics
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		factory: f,
		spans:   newSpanMetrics(f),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_requests_total",
			Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "code"}),
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
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_events_refused_total",
			Help: "Events that were not recorded, or not surely, by error code.",
		}, []string{"reason"}),
		warnings: f.NewCounter(prometheus.CounterOpts{
			Name: "outlay_ingest_warnings_total",
			Help: "Unknown fields of recorded events that resemble a known one; their senders were warned.",
		}),
		produceDuration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "outlay_ingest_produce_duration_seconds",
			Help:    "Time from handing an event to the Kafka client until it was acknowledged or given up.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}
	m.produceErrors = f.NewCounterVec(prometheus.CounterOpts{
		Name: "outlay_ingest_produce_errors_total",
		Help: "Events that Kafka did not acknowledge to a waiting request, and requests that were not read, by reason.",
	}, []string{"reason"})
	for _, reason := range []string{"buffer_full", "too_many_requests", "timeout", "refused"} {
		m.produceErrors.WithLabelValues(reason)
	}
	m.calculated = m.acceptedBy.WithLabelValues(string(schema.CostCalculated))
	for _, code := range refusals {
		m.refused.WithLabelValues(string(code))
	}
	return m
}

// refusals are the codes with which a tracking request can end.
var refusals = []problem.Code{
	problem.Unauthorized, problem.Forbidden, problem.BudgetExceeded, problem.TooLarge,
	problem.UnsupportedMediaType, problem.Invalid, problem.RateLimited, problem.Internal,
}

func (m *metrics) room(r *room) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_produce_buffered_bytes",
		Help: "Memory in bytes that requests hold until they are answered and their events are acknowledged or given up.",
	}, func() float64 { return float64(r.bytes.Load()) })
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_requests_under_way",
		Help: "Tracking requests that are being handled.",
	}, func() float64 { return float64(r.requests.Load()) })
}

func (m *metrics) keys(directory Keys) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_key_cache_age_seconds",
		Help: "Time since the API keys were last read from the database.",
	}, func() float64 { return directory.Age().Seconds() })
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_key_cache_entries",
		Help: "API keys held in memory.",
	}, func() float64 { return float64(directory.Size()) })
	m.factory.NewCounterFunc(prometheus.CounterOpts{
		Name: "outlay_ingest_refused_key_lookups_total",
		Help: "Requests with an API key that is not in memory, refused because their network sent many keys in the minute that are not good.",
	}, func() float64 { return float64(directory.RefusedLookups()) })
}

func (m *metrics) recent(known *recent) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_recent_keys",
		Help: "Idempotency keys held in memory.",
	}, func() float64 { return float64(known.entries()) })
}

// routeMetrics counts the requests of one route. The counter of the common answer
// is looked up once.
type routeMetrics struct {
	m     *metrics
	route string
	ok    prometheus.Counter
}

func (m *metrics) route(route string) routeMetrics {
	return routeMetrics{m, route, m.requests.WithLabelValues(route, "200")}
}

func (r routeMetrics) answered(status int) {
	if status == http.StatusOK {
		r.ok.Inc()
		return
	}
	r.m.requests.WithLabelValues(r.route, strconv.Itoa(status)).Inc()
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
