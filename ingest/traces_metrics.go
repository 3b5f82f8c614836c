package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// spanMetrics count the spans of trace exports by what became of them.
type spanMetrics struct {
	converted, rejected, wrappers, ignored prometheus.Counter
}

func newSpanMetrics(f promauto.Factory) spanMetrics {
	spans := f.NewCounterVec(prometheus.CounterOpts{
		Name: "outlay_ingest_spans_total",
		Help: "OpenTelemetry spans received: converted into events, rejected, wrapper of other GenAI spans, or ignored as not GenAI.",
	}, []string{"outcome"})
	return spanMetrics{
		converted: spans.WithLabelValues("converted"),
		rejected:  spans.WithLabelValues("rejected"),
		wrappers:  spans.WithLabelValues("wrapper"),
		ignored:   spans.WithLabelValues("ignored"),
	}
}
