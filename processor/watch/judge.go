package watch

import (
	"math"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
)

// reading is what a rule looks at for one scope.
type reading struct {
	scope string
	value float64
	// known is false where there is nothing to have a value, such as the error rate
	// of no events.
	known  bool
	events float64
}

// verdict is what a rule says about a reading.
type verdict struct {
	reading
	holds bool
	// low says that the value is below what is usual.
	low bool
	// learning says that too little is known of what is usual.
	learning bool
	summary  string
}

// judgeAbove judges by the rule's threshold.
func judgeAbove(r *alert.Rule, read reading) verdict {
	v := verdict{reading: read}
	v.holds = read.known && read.value > *r.Threshold
	switch {
	case !read.known:
		v.summary = "no events in " + span(r.Window)
	case v.holds:
		v.summary = amount(r.Metric, read.value) + " " + during(r) + ", above " + amount(r.Metric, *r.Threshold)
	default:
		v.summary = amount(r.Metric, read.value) + " " + during(r) + ", not above " + amount(r.Metric, *r.Threshold)
	}
	return v
}

// stays is how much of the sensitivity an incident has to keep in order to last: one
// that swings around its limit begins and ends once.
const stays = 0.75

// judgeAnomaly judges by what is usual for the agent in such a window. firing says
// that an incident lasts.
func judgeAnomaly(r *alert.Rule, read reading, past hours, from, to time.Time, firing bool) verdict {
	v := verdict{reading: read}
	u, ok := usualOf(past, r.Metric, from, to)
	if !ok {
		v.learning = true
		v.summary = "too little is known of what is usual"
		return v
	}
	if !read.known {
		v.summary = "no events in " + span(r.Window)
		return v
	}
	limit := *r.Sensitivity * u.spread
	if firing {
		limit *= stays
	}
	off := read.value - u.median
	v.low = off < 0
	switch {
	case off > limit:
		v.holds = read.events >= minEvents
	case falls(r.Metric) && u.events >= minUsualEvents:
		// Nothing at all, where there always was something, is out of every spread.
		v.holds = off < -limit || read.events == 0 && u.least > 0
	}
	v.summary = amount(r.Metric, read.value) + " " + during(r) + "; usual " +
		amount(r.Metric, u.median) + " ± " + bare(r.Metric, u.spread)
	return v
}

// worst returns the verdict that stands for a rule as a whole.
func worst(verdicts []verdict) *verdict {
	var found *verdict
	for i := range verdicts {
		v := &verdicts[i]
		if !v.known {
			continue
		}
		if found == nil || v.holds && !found.holds || v.holds == found.holds && math.Abs(v.value) > math.Abs(found.value) {
			found = v
		}
	}
	return found
}
