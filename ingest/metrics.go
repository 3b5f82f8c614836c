package ingest

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/outlayhq/outlay/schema/problem"
)

// metrics are made once per Server. Every label has a closed set of values. Those of recording are the Recorder's.
type metrics struct {
	factory  promauto.Factory
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	spans    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		factory: f,
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_requests_total",
			Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "code"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_events_refused_total",
			Help: "Events that were not recorded, or not certainly, by error code.",
		}, []string{"reason"}),
		spans: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_spans_total",
			Help: "OpenTelemetry spans received: converted into events, rejected, wrapper of other GenAI spans, or ignored as not GenAI.",
		}, []string{"outcome"}),
	}
	for _, code := range refusals {
		m.refused.WithLabelValues(string(code))
	}
	for _, outcome := range []string{"converted", "rejected", "wrapper", "ignored"} {
		m.spans.WithLabelValues(outcome)
	}
	return m
}

// refusals are the codes with which a tracking request can end.
var refusals = []problem.Code{
	problem.Unauthorized, problem.Forbidden, problem.BudgetExceeded, problem.TooLarge,
	problem.UnsupportedMediaType, problem.Invalid, problem.RateLimited, problem.Internal,
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
		Help: "Requests with an API key that is not in memory, refused because their network sent many invalid keys in that minute.",
	}, func() float64 { return float64(directory.RefusedLookups()) })
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
