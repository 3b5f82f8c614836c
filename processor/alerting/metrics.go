package alerting

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
	"github.com/outlayhq/outlay/schema/alert"
)

// metrics change only in the leader's process; leading is 1 there.
type metrics struct {
	// leading is 1 in one process of the installation.
	leading prometheus.Gauge
	// checked stops when rules are not evaluated any more, which deploy/prometheus alerts on.
	checked  prometheus.Gauge // Unix seconds
	duration prometheus.Histogram
	errors   prometheus.Counter
	// behind is in seconds, and large while events wait in Kafka.
	behind      prometheus.Gauge
	transitions *prometheus.CounterVec
}

// newMetrics registers the metrics, with every type of message at 0.
func newMetrics(r prometheus.Registerer) *metrics {
	f := metric.With(r)
	m := &metrics{
		leading: f.Gauge("outlay_processor_alerts_leading", "1 while this processor checks the alert rules."),
		checked: f.Gauge("outlay_processor_alert_check_timestamp_seconds",
			"When this processor last checked all alert rules, in seconds since 1970; 0: never."),
		duration: f.Histogram("outlay_processor_alert_check_duration_seconds",
			"Time to check all alert rules and caps once.", 0.005, 2, 13),
		errors: f.Counter("outlay_processor_alert_check_errors_total",
			"Checks in which some rule or cap could not be checked."),
		behind: f.Gauge("outlay_processor_alerts_behind_seconds",
			"How far behind the clock the events are that rules were checked against."),
		transitions: f.Counters("outlay_processor_alert_transitions_total",
			"Incidents that began or ended and thresholds of caps that were passed, by the type of the message.", "type"),
	}
	for _, t := range []alert.Type{alert.AlertFiring, alert.AlertResolved, alert.BudgetThreshold, alert.BudgetExceeded} {
		m.transitions.WithLabelValues(string(t))
	}
	return m
}
