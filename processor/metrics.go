package processor

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
	"github.com/outlayhq/outlay/processor/timescale"
)

// metrics of storing. Each record that is read ends up in one of stored, duplicates, refusedLate and deadLetters.
type metrics struct {
	// records counts what was polled; a rewind reads records again.
	records prometheus.Counter
	// stored counts rows of events, by what the statement returned and not by what was sent.
	stored     prometheus.Counter
	duplicates prometheus.Counter
	// refusedLate is 0 unless an ingest replica was cut off for minutes and came back.
	refusedLate prometheus.Counter
	deadLetters *prometheus.CounterVec
	// saveDuration is of single tries, those that failed included.
	saveDuration prometheus.Histogram
	saveErrors   *prometheus.CounterVec
	// fenced and rewinds rise when partitions change hands. Neither loses anything.
	fenced      prometheus.Counter
	rewinds     prometheus.Counter
	fetchErrors prometheus.Counter
	// lag has the partitions of this processor only; those it lost disappear.
	lag   *prometheus.GaugeVec
	holes prometheus.Gauge
}

// newMetrics registers the metrics, with every reason and class at 0.
func newMetrics(r prometheus.Registerer) *metrics {
	f := metric.With(r)
	m := &metrics{
		records: f.Counter("outlay_processor_records_total", "Records read from Kafka, those read again included."),
		stored:  f.Counter("outlay_processor_events_stored_total", "Events stored in the database."),
		duplicates: f.Counter("outlay_processor_duplicates_total",
			"Events not stored because their idempotency key was stored already."),
		refusedLate: f.Counter("outlay_processor_events_refused_late_total",
			"Events refused because they were written to Kafka after the lease of a cap that they were charged to was given to others."),
		fenced: f.Counter("outlay_processor_fenced_total",
			"Batches that were not stored because another processor had moved on."),
		rewinds: f.Counter("outlay_processor_rewinds_total",
			"Times that records were read again from the stored position."),
		fetchErrors: f.Counter("outlay_processor_fetch_errors_total", "Errors of single partitions when reading from Kafka."),
		deadLetters: f.Counters("outlay_processor_dead_letters_total",
			"Records put aside because they cannot be stored, by reason.", "reason"),
		saveDuration: f.Histogram("outlay_processor_save_duration_seconds", "Time of one try to save a batch.", 0.001, 2, 15),
		saveErrors: f.Counters("outlay_processor_save_errors_total",
			"Tries to save a batch that did not succeed, by class: fenced and transient pass, unprocessable is tried again in smaller parts, data leads to dead letters.", "class"),
		lag: f.Gauges("outlay_processor_lag_records",
			"Records in Kafka that are not stored yet, by partition owned by this processor.", "partition"),
		holes: f.Gauge("outlay_processor_holes",
			"Partitions that stand still because Kafka has deleted events that were not stored."),
	}
	for _, reason := range []timescale.Reason{timescale.ReasonNotEvent, timescale.ReasonVersion, timescale.ReasonRefused} {
		m.deadLetters.WithLabelValues(string(reason))
	}
	for _, class := range []timescale.Class{timescale.Fenced, timescale.Data, timescale.Unprocessable, timescale.Transient} {
		m.saveErrors.WithLabelValues(string(class))
	}
	return m
}

// observeLag sets the lag of a partition, in records.
func (m *metrics) observeLag(partition int32, records int64) {
	m.lag.WithLabelValues(strconv.Itoa(int(partition))).Set(float64(records))
}
