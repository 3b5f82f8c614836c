package query

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/query/auth"
)

// metrics of the query tier. A route is the pattern of its path, so the labels
// come from a closed list.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	signIns  *prometheus.CounterVec
	// refreshes that were reused are refresh tokens in two hands.
	refreshes *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	// federatedTokens and keyFetches are about outside identity providers.
	federatedTokens *prometheus.CounterVec
	keyFetches      *prometheus.CounterVec
	auditDropped    prometheus.Counter
	limited         *prometheus.CounterVec
	// refusedKeyLookups are of networks that sent many API keys that are not good.
	refusedKeyLookups prometheus.Counter
}

// The outcomes of a sign-in or of a refresh.
const (
	outcomeOK        = "ok"
	outcomeWrong     = "wrong"
	outcomeThrottled = "slowed"
	outcomeReused    = "reused"
	outcomeError     = "error"
)

// The outcomes of a token of an outside identity provider.
const (
	outcomeAccepted = "accepted"
	outcomeRefused  = "refused"
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
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_tokens_total",
			Help: "Tokens that requests showed, by outcome of the check; the signature of a remembered one was checked before.",
		}, []string{"outcome"}),
		federatedTokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_outside_tokens_total",
			Help: "Tokens that name an outside identity provider as their issuer, by outcome of the check.",
		}, []string{"outcome"}),
		keyFetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_key_fetches_total",
			Help: "Tries to fetch the keys of outside identity providers, by outcome; a limited one was too soon after another.",
		}, []string{"outcome"}),
		auditDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outlay_query_audit_dropped_total",
			Help: "Failed sign-ins that are not in the audit log, because too many waited or the database refused them.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_limited_total",
			Help: "Requests of signed-in users and API keys that were answered 429, by the limit of the account that they met.",
		}, []string{"limit"}),
		refusedKeyLookups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outlay_query_refused_key_lookups_total",
			Help: "Requests with an API key that is not known, refused because their network sent many keys in the minute that are not good.",
		}),
	}
	for _, limit := range []string{limitReads, limitCreations, limitAtOnce} {
		m.limited.WithLabelValues(limit)
	}
	for _, outcome := range []string{outcomeAccepted, outcomeRefused} {
		m.federatedTokens.WithLabelValues(outcome)
	}
	for _, outcome := range []string{auth.TokenRemembered, auth.TokenVerified, auth.TokenRefused} {
		m.tokens.WithLabelValues(outcome)
	}
	for _, outcome := range []string{auth.FetchOK, auth.FetchFailed, auth.FetchLimited} {
		m.keyFetches.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeOK, outcomeWrong, outcomeReused, outcomeError} {
		m.refreshes.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeOK, outcomeWrong, outcomeThrottled, outcomeError} {
		m.signIns.WithLabelValues(outcome)
	}
	registry.MustRegister(m.requests, m.duration, m.signIns, m.refreshes, m.tokens, m.federatedTokens, m.keyFetches, m.auditDropped, m.limited,
		m.refusedKeyLookups)
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

// federatedToken counts a token of an outside identity provider.
func (m *metrics) federatedToken(accepted bool) {
	outcome := outcomeRefused
	if accepted {
		outcome = outcomeAccepted
	}
	m.federatedTokens.WithLabelValues(outcome).Inc()
}

// tokenChecked counts a token that a request showed.
func (m *metrics) tokenChecked(outcome string) { m.tokens.WithLabelValues(outcome).Inc() }

// keysFetched counts a try to fetch a provider's keys.
func (m *metrics) keysFetched(outcome string) { m.keyFetches.WithLabelValues(outcome).Inc() }
