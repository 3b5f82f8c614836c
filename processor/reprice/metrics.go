package reprice

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
)

// metrics of repricing. Events of dry runs count as looked at and never as corrected.
type metrics struct {
	// running is at most workers.
	running   prometheus.Gauge
	lookedAt  prometheus.Counter
	corrected prometheus.Counter
	retries   prometheus.Counter
	duration  prometheus.Histogram
}

// newMetrics registers the metrics.
func newMetrics(r prometheus.Registerer) *metrics {
	f := metric.With(r)
	return &metrics{
		running: f.Gauge("outlay_processor_reprices_running",
			"Jobs that reprice events, dry runs included, that this processor works on."),
		lookedAt: f.Counter("outlay_processor_reprice_events_total",
			"Events whose price was computed anew, those of dry runs included."),
		corrected: f.Counter("outlay_processor_repriced_events_total",
			"Stored events that were given another cost or price."),
		retries: f.Counter("outlay_processor_reprice_retries_total",
			"Slices of events that were tried again, as when they met a lock."),
		duration: f.Histogram("outlay_processor_reprice_slice_duration_seconds",
			"Time of reading, pricing and saving one slice of events.", 0.001, 2, 15),
	}
}

// observe counts a slice that is saved.
func (m *metrics) observe(s *slice, dryRun bool, took time.Duration) {
	m.lookedAt.Add(float64(s.events))
	if !dryRun {
		m.corrected.Add(float64(len(s.changes)))
	}
	m.duration.Observe(took.Seconds())
}
