package notify

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/outlayhq/outlay/schema/alert"
)

// metrics of deliveries. tries and duration are of this process; pending, oldest and overdue are of the whole outbox.
type metrics struct {
	tries    *prometheus.CounterVec
	duration prometheus.Histogram
	// pending counts messages. oldest and overdue are in seconds: overdue is the one to alert on, because a receiver that is away
	// makes messages old and not overdue.
	pending prometheus.Gauge
	oldest  prometheus.Gauge
	overdue prometheus.Gauge
	// errors counts failures of the database, not of receivers.
	errors prometheus.Counter
}

// newMetrics registers the metrics, with every channel and outcome at 0.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		tries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_processor_delivery_tries_total", Help: "Tries to deliver a message, by channel and how they went.",
		}, []string{"channel", "outcome"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "outlay_processor_delivery_duration_seconds", Help: "Time of one try to deliver a message.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		pending: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_processor_deliveries_pending", Help: "Messages that are not delivered yet, of all processors.",
		}),
		oldest: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_processor_deliveries_oldest_seconds", Help: "Age of the oldest message that is not delivered yet.",
		}),
		overdue: f.NewGauge(prometheus.GaugeOpts{
			Name: "outlay_processor_deliveries_overdue_seconds", Help: "How long the message that is due longest has waited for its next try.",
		}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "outlay_processor_delivery_errors_total", Help: "Times that the outbox could not be read or written.",
		}),
	}
	for _, c := range []alert.ChannelType{alert.Webhook, alert.Slack, alert.Email} {
		for _, o := range outcomes() {
			m.tries.WithLabelValues(string(c), string(o))
		}
	}
	return m
}
