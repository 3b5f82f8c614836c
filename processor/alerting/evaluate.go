package alerting

import (
	"math"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
)

// measurement is the value of a rule's metric for one scope. An empty scope is everything that the rule looks at, another an agent.
type measurement struct {
	scope string
	// value is in the unit of the rule's threshold: money in nano-dollars, rates as a share of 1, latencies in milliseconds.
	value float64
	// known is false where there is nothing to have a value, such as the error rate
	// of no events.
	known bool
	// events is how many events the value is made of.
	events float64
}

// evaluation is a measurement with what the rule's condition makes of it.
type evaluation struct {
	measurement
	// holds is whether the rule's condition does.
	holds bool
	// low is set when the value is below the baseline.
	low bool
	// learning is set when there is too little past for a baseline.
	learning bool
	// summary is the sentence for people.
	summary string
}

// evaluateAbove compares with the rule's threshold.
func evaluateAbove(r *alert.Rule, read measurement) evaluation {
	v := evaluation{measurement: read}
	if !read.known {
		v.summary = "no events in " + formatWindow(r.Window)
		return v
	}
	compared := ", not above "
	if v.holds = read.value > *r.Threshold; v.holds {
		compared = ", above "
	}
	v.summary = formatValue(r.Metric, read.value) + " " + formatPeriod(r) + compared + formatValue(r.Metric, *r.Threshold)
	return v
}

// firingShare is the part of the limit below which an incident ends, so that a value that swings around its limit begins and ends
// one incident.
const firingShare = 0.75

// evaluateAnomaly compares with the agent's baseline for such a window. firing is true while an incident is open.
func evaluateAnomaly(r *alert.Rule, read measurement, past hours, from, to time.Time, firing bool) evaluation {
	v := evaluation{measurement: read}
	u, ok := baselineOf(past, r.Metric, from, to)
	if !ok {
		v.learning = true
		v.summary = "too little is known of what is usual"
		return v
	}
	if !read.known {
		v.summary = "no events in " + formatWindow(r.Window)
		return v
	}
	// Sensitivity is how many spreads from the median are too many: a smaller one fires sooner.
	limit := *r.Sensitivity * u.spread
	if firing {
		limit *= firingShare
	}
	off := read.value - u.median
	v.low = off < 0
	switch {
	case off > limit:
		v.holds = read.events >= minEvents
	case alertsOnDrop(r.Metric) && u.events >= minBaselineEvents:
		// Nothing at all, where there always was something, is out of every spread.
		v.holds = off < -limit || read.events == 0 && u.least > 0
	}
	v.summary = formatValue(r.Metric, read.value) + " " + formatPeriod(r) + "; usual " +
		formatValue(r.Metric, u.median) + " ± " + formatNumber(r.Metric, u.spread)
	return v
}

// worst returns the evaluation that is shown for the rule as a whole: one whose condition holds, then the one furthest from zero.
func worst(evaluations []evaluation) *evaluation {
	// A value that is not known cannot be shown.
	var found *evaluation
	for i := range evaluations {
		v := &evaluations[i]
		if !v.known {
			continue
		}
		if found == nil || v.holds && !found.holds || v.holds == found.holds && math.Abs(v.value) > math.Abs(found.value) {
			found = v
		}
	}
	return found
}
