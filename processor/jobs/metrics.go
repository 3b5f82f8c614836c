package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
)

// The outcomes of a try at a job.
const (
	outcomeDone   = "done"
	outcomeRetry  = "retry"  // it failed and will be tried again
	outcomeFailed = "failed" // for good
	outcomeLost   = "lost"   // another try has taken the job, or it had ended
)

// metrics are labelled by kind, which is a closed list: the kinds that were registered.
type metrics struct {
	jobs     *prometheus.CounterVec // by kind and outcome
	duration *prometheus.HistogramVec
	// waiting and oldest are of the whole queue; oldest is in seconds.
	waiting *prometheus.GaugeVec
	oldest  *prometheus.GaugeVec
	// rescued rises by what a processor worked on when it was killed.
	rescued prometheus.Counter
}

// newMetrics registers the metrics; add then makes those of a kind appear.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := metric.With(registry)
	return &metrics{
		jobs: f.Counters("outlay_processor_jobs_total",
			"Tries at jobs that ended, by kind and outcome.", "kind", "outcome"),
		duration: f.Histograms("outlay_processor_job_duration_seconds",
			"Time of one try at a job, by kind.", 0.001, 4, 12, "kind"),
		waiting: f.Gauges("outlay_processor_jobs_waiting",
			"Jobs that could be worked on and are not yet, by kind. Every replica shows the same.", "kind"),
		oldest: f.Gauges("outlay_processor_job_oldest_waiting_seconds",
			"How long the oldest waiting job has waited, by kind. Every replica shows the same.", "kind"),
		rescued: f.Counter("outlay_processor_jobs_rescued_total",
			"Jobs put back into the queue because nobody worked on them any more, as when a processor was killed."),
	}
}

// add makes the metrics of a kind appear before its first job.
func (m *metrics) add(kind string) {
	for _, outcome := range []string{outcomeDone, outcomeRetry, outcomeFailed, outcomeLost} {
		m.jobs.WithLabelValues(kind, outcome)
	}
	m.duration.WithLabelValues(kind)
	m.waiting.WithLabelValues(kind)
	m.oldest.WithLabelValues(kind)
}

// observe counts a try that has ended.
func (m *metrics) observe(kind, outcome string, took time.Duration) {
	m.jobs.WithLabelValues(kind, outcome).Inc()
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
}
