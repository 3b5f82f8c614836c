// Package metric registers the Prometheus metrics of the packages of the processor, a line for each. Names have the unit at their
// end, such as _seconds; help is a sentence. What a metric counts, and from where, is left to the packages.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Factory registers metrics as it makes them. It panics on a name that is registered already: that is an error in the program.
type Factory struct{ factory promauto.Factory }

// With returns the factory of a registry.
func With(r prometheus.Registerer) Factory { return Factory{promauto.With(r)} }

// Counter returns a counter.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return f.factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters returns counters by labels. One appears when its labels are first used.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge returns a gauge.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return f.factory.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges returns gauges by labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Histogram returns a histogram of seconds: n buckets, the first up to first, each factor times as wide as the one before.
func (f Factory) Histogram(name, help string, first, factor float64, n int) prometheus.Histogram {
	return f.factory.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, n),
	})
}

// Histograms returns histograms by labels.
func (f Factory) Histograms(name, help string, first, factor float64, n int, labels ...string) *prometheus.HistogramVec {
	return f.factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, n),
	}, labels)
}
