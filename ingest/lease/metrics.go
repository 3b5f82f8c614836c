package lease

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	caps      prometheus.Gauge
	decisions *prometheus.CounterVec
	calls     *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		caps: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_budgets",
			Help: "Caps known to this replica.",
		}),
		decisions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_budget_decisions_total",
			Help: "Events of capped agents: allowed, refused because a cap is reached, unknown because the database did not answer, open if let through all the same.",
		}, []string{"decision"}),
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_budget_calls_total",
			Help: "Calls to the database about shares of caps, by call and outcome.",
		}, []string{"call", "outcome"}),
	}
	for _, decision := range []string{"allowed", "refused", "unknown", "open"} {
		m.decisions.WithLabelValues(decision)
	}
	return m
}

func (m *metrics) decision(d string)         { m.decisions.WithLabelValues(d).Inc() }
func (m *metrics) call(name, outcome string) { m.calls.WithLabelValues(name, outcome).Inc() }
