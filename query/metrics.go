package query

import (
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/outlayhq/outlay/query/auth"
)

// metrics of the query tier. A route is the pattern of its path, so the labels
// come from a closed list.
type metrics struct {
	requests *prometheus.CounterVec
	// duration is by route only: a series for each code as well would be fourteen times as many.
	duration *prometheus.HistogramVec
	// signIns counts passwords; tokens of identity providers are federatedTokens.
	signIns *prometheus.CounterVec
	// refreshes that were reused are refresh tokens in two hands.
	refreshes *prometheus.CounterVec
	// tokens shows by its outcomes how many signatures were checked and how many remembered.
	tokens *prometheus.CounterVec
	// federatedTokens and keyFetches are about outside identity providers.
	federatedTokens *prometheus.CounterVec
	keyFetches      *prometheus.CounterVec
	// auditDropped is above 0 when somebody guesses faster than the database writes.
	auditDropped prometheus.Counter
	limited      *prometheus.CounterVec
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
	factory := promauto.With(registry)
	// count returns a counter by one label, which is 0 from the start for the values that are known.
	count := func(name, label, help string, values ...string) *prometheus.CounterVec {
		counter := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			counter.WithLabelValues(value)
		}
		return counter
	}
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_query_requests_total",
			Help: "Requests answered by the query tier, by route and status code.",
		}, []string{"route", "code"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "outlay_query_request_duration_seconds",
			Help:    "Time from the first byte of a request's header to the last byte of the answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		signIns: count("outlay_query_sign_ins_total", "outcome", "Sign-ins with a password, by outcome.",
			outcomeOK, outcomeWrong, outcomeThrottled, outcomeError),
		refreshes: count("outlay_query_refreshes_total", "outcome",
			"Refresh tokens that were sent, by outcome; a reused one ends its sign-in.",
			outcomeOK, outcomeWrong, outcomeReused, outcomeError),
		tokens: count("outlay_query_tokens_total", "outcome",
			"Tokens that requests showed, by outcome of the check; the signature of a remembered one was checked before.",
			auth.TokenRemembered, auth.TokenVerified, auth.TokenRefused),
		federatedTokens: count("outlay_query_outside_tokens_total", "outcome",
			"Tokens that name an outside identity provider as their issuer, by outcome of the check.",
			outcomeAccepted, outcomeRefused),
		keyFetches: count("outlay_query_key_fetches_total", "outcome",
			"Tries to fetch the keys of outside identity providers, by outcome; a limited one was too soon after another.",
			auth.FetchOK, auth.FetchFailed, auth.FetchLimited),
		auditDropped: factory.NewCounter(prometheus.CounterOpts{
			Name: "outlay_query_audit_dropped_total",
			Help: "Failed sign-ins that are not in the audit log, because too many waited or the database refused them.",
		}),
		limited: count("outlay_query_limited_total", "limit",
			"Requests of signed-in users and API keys that were answered 429, by the limit of the account that they met.",
			limitReads, limitCreations, limitAtOnce),
		refusedKeyLookups: factory.NewCounter(prometheus.CounterOpts{
			Name: "outlay_query_refused_key_lookups_total",
			Help: "Requests with an API key that is not known, refused because their network sent many keys in the minute that are not good.",
		}),
	}
}

// noRoute is the route of a request that fits none.
const noRoute = "none"

func (m *metrics) observe(route string, status int, took time.Duration) {
	// The path itself is no label: anybody could make series without end.
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

// measure counts the request once it is answered.
func (s *Server) measure(c *gin.Context) {
	start := s.now()
	// Deferred, because an answer that breaks off does so by a panic.
	defer func() { s.metrics.observe(c.FullPath(), c.Writer.Status(), s.now().Sub(start)) }()
	c.Next()
}
