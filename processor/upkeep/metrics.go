package upkeep

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/metric"
)

// metrics of upkeep, by table, kind or task.
type metrics struct {
	// deleted and folded are by table, expired by kind, taskErrors by task.
	deleted, folded, expired, taskErrors *prometheus.CounterVec
	foldedSessions                       prometheus.Counter
	// refreshed is a Unix time; difference is a number of records and always 0 unless events were lost.
	refreshed, difference prometheus.Gauge
}

// newMetrics registers the metrics, with every label that is known at 0; those of tasks follow in Run.
func newMetrics(r prometheus.Registerer) metrics {
	f := metric.With(r)
	m := metrics{
		deleted: f.Counters("outlay_processor_deleted_rows_total",
			"Rows deleted because nobody needs them any more, by table.", "table"),
		folded: f.Counters("outlay_processor_folded_rows_total",
			"Rows of old sums folded into coarser ones, by table.", "table"),
		expired: f.Counters("outlay_processor_expired_total",
			"Rows deleted because they were past the retention of their account, by kind. Chunks that are dropped whole are not counted.", "kind"),
		taskErrors: f.Counters("outlay_processor_task_errors_total", "Runs of a periodic task that failed, by task.", "task"),
		foldedSessions: f.Counter("outlay_processor_session_parts_folded_total",
			"Parts of sessions, one for each session of a batch, that were moved into the list of sessions."),
		refreshed: f.Gauge("outlay_processor_rollups_refreshed_timestamp_seconds",
			"When the last complete refresh of the hourly and daily sums began, in Unix time. Late events that were stored before show in them."),
		difference: f.Gauge("outlay_processor_intake_difference_records",
			"Records taken from Kafka that were neither stored nor recognised as duplicates nor put aside. Always 0, or something is wrong."),
	}
	for _, r := range rules {
		m.deleted.WithLabelValues(r.table)
	}
	for _, table := range []string{"arrivals", "refused_events", "spend"} {
		m.folded.WithLabelValues(table)
	}
	for _, kind := range []string{"events", "sessions", "share_links", "dead_letters", "revisions"} {
		m.expired.WithLabelValues(kind)
	}
	return m
}
