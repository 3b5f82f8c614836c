package query

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the query tier. A route is the pattern of its path, so the labels
// come from a closed list.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	signIns  *prometheus.CounterVec
	// refreshes that were reused are refresh tokens in two hands.
	refreshes *prometheus.CounterVec
}

// The outcomes of a sign-in or of a refresh.
const (
	outcomeOK     = "ok"
	outcomeWrong  = "wrong"
	outcomeSlowed = "slowed"
	outcomeReused = "reused"
	outcomeError  = "error"
)

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_requests_total",
			Help: "Requests answered by the query tier, by route and status code.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "outlay_query_request_duration_seconds",
			Help:    "Time from the first byte of a request's header to the last byte of the answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_sign_ins_total",
			Help: "Sign-ins with a password, by outcome.",
		}, []string{"outcome"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_refreshes_total",
			Help: "Refresh tokens that were sent, by outcome; a reused one ends its sign-in.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeOK, outcomeWrong, outcomeReused, outcomeError} {
		m.refreshes.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeOK, outcomeWrong, outcomeSlowed, outcomeError} {
		m.signIns.WithLabelValues(outcome)
	}
	registry.MustRegister(m.requests, m.duration, m.signIns, m.refreshes)
	return m
}

// noRoute is the route of a request that fits none.
const noRoute = "none"

func (m *metrics) observe(route string, status int, took time.Duration) {
	if route == "" {
		route = noRoute
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}
