package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	decisions            [verdicts]prometheus.Counter
	callsOK, callsFailed prometheus.Counter
	away                 prometheus.Gauge
	replicas             prometheus.Gauge
	accounts             prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	decisions := f.NewCounterVec(prometheus.CounterOpts{
		Name: "outlay_ingest_rate_limit_decisions_total",
		Help: "Decisions of rate limits: allowed, local if allowed from this replica's own share while the database was away, refused. A batch asks for its first event and then for the rest.",
	}, []string{"decision"})
	calls := f.NewCounterVec(prometheus.CounterOpts{
		Name: "outlay_ingest_rate_limit_calls_total",
		Help: "Calls to the database about rate limits, by outcome.",
	}, []string{"outcome"})
	m := &metrics{
		callsOK: calls.WithLabelValues("ok"), callsFailed: calls.WithLabelValues("failed"),
		away: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_rate_limit_fallback",
			Help: "1 while rate limits are divided equally among the replicas because the database does not answer.",
		}),
		replicas: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_replicas",
			Help: "Ingest replicas that were alive when the database last answered.",
		}),
		accounts: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_rate_limit_accounts",
			Help: "Accounts whose windows this replica keeps.",
		}),
	}
	m.away.Set(1)
	for v, name := range map[verdict]string{allowed: "allowed", local: "local", refused: "refused"} {
		m.decisions[v] = decisions.WithLabelValues(name)
	}
	return m
}
