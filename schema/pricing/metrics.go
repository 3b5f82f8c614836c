package pricing

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	overrides prometheus.Gauge
	refreshes *prometheus.CounterVec
	waiting   prometheus.Gauge
}

// outcomes are what can come of reading the published prices anew.
var outcomes = []string{"applied", "unchanged", "failed", "waiting"}

func newMetrics(r prometheus.Registerer, b *Books) *metrics {
	f := promauto.With(r)
	m := &metrics{
		overrides: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_price_overrides",
			Help: "Prices of accounts held in memory.",
		}),
		refreshes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_price_refreshes_total",
			Help: "Times the published prices were read from a file or an address, by outcome.",
		}, []string{"outcome"}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_ingest_price_book_waiting",
			Help: "1 while a price catalogue waits for approval because it changes a price to or from nothing or by more than ten times.",
		}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "outlay_ingest_price_cache_age_seconds",
		Help: "Time since the prices of accounts were last read from the database.",
	}, func() float64 {
		at := b.loadedAt.Load()
		if at == 0 {
			return 0
		}
		return b.now().Sub(time.Unix(0, at)).Seconds()
	})
	for _, outcome := range outcomes {
		m.refreshes.WithLabelValues(outcome)
	}
	return m
}

// refreshed notes what came of reading the published prices. A catalogue that
// waits goes on waiting when the next try fails.
func (m *metrics) refreshed(outcome string) {
	m.refreshes.WithLabelValues(outcome).Inc()
	switch outcome {
	case "waiting":
		m.waiting.Set(1)
	case "applied", "unchanged":
		m.waiting.Set(0)
	}
}
