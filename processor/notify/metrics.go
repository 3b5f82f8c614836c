package notify

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
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
	f := metric.With(r)
	m := &metrics{
		tries: f.Counters("outlay_processor_delivery_tries_total",
			"Tries to deliver a message, by channel and how they went.", "channel", "outcome"),
		duration: f.Histogram("outlay_processor_delivery_duration_seconds",
			"Time of one try to deliver a message.", 0.005, 2, 13),
		pending: f.Gauge("outlay_processor_deliveries_pending", "Messages that are not delivered yet, of all processors."),
		oldest: f.Gauge("outlay_processor_deliveries_oldest_seconds",
			"Age of the oldest message that is not delivered yet."),
		overdue: f.Gauge("outlay_processor_deliveries_overdue_seconds",
			"How long the message that is due longest has waited for its next try."),
		errors: f.Counter("outlay_processor_delivery_errors_total", "Times that the outbox could not be read or written."),
	}
	for _, c := range []alert.ChannelType{alert.Webhook, alert.Slack, alert.Email} {
		for _, o := range outcomes() {
			m.tries.WithLabelValues(string(c), string(o))
		}
	}
	return m
}
