package alerting

import (
	"math"
	"slices"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
)

// How much of the past is looked at, and how much of it there has to be.
const (
	// historyWeeks is how many weeks back the same hours are looked at.
	historyWeeks = 8
	// minWeeks is how many of them an agent must have been there.
	minWeeks = 3
	// minEvents is how many events a window must have for a value to be too high.
	minEvents = 10
	// minBaselineEvents is the median number of events that a window must have for a value to be too low.
	minBaselineEvents = 20
	// minSpread is the least spread of an hour or less, as a part of the median, and minDaySpread that of a day: nothing is so
	// regular that a smaller deviation is worth an alert.
	minSpread    = 0.2
	minDaySpread = 0.12
)

// week is the period that agents are compared over: their load follows the hours of the working week.
const week = 7 * 24 * time.Hour

// tally is what the events of a span of time add up to for one metric. The value is
// num, or num for each den where the metric is a rate.
type tally struct{ num, den, events float64 }

// add adds a part of o, from 0 to 1.
func (t *tally) add(o tally, part float64) {
	t.num += o.num * part
	t.den += o.den * part
	t.events += o.events * part
}

// hours are an agent's tallies by the hour, in Unix seconds.
type hours map[int64]tally

// hourSeconds is the length of an hour in the unit of hours' keys.
const hourSeconds = 3600

// between returns the tally of a span, in Unix seconds. Of an hour that lies in it
// partly, that part counts.
func (h hours) between(from, to int64) tally {
	var sum tally
	for at := from - from%hourSeconds; at < to; at += hourSeconds {
		if t, ok := h[at]; ok {
			sum.add(t, float64(min(at+hourSeconds, to)-max(at, from))/hourSeconds)
		}
	}
	return sum
}

// baseline is what is to be expected of a window, from the same hours of the weeks before. All values are in the unit of the metric.
type baseline struct {
	median float64
	// spread is how far values usually are from the median, comparable to a standard deviation.
	spread float64
	// events is the median number of events.
	events float64
	// least is the lowest value ever seen.
	least float64
}

// baselineOf takes the same window in each of the last weeks, and an hour before and after it. It reports false when there is too
// little to compare with.
func baselineOf(h hours, m alert.Metric, from, to time.Time) (baseline, bool) {
	// Median and spread by quantiles, and not mean and deviation: one bad hour in eight weeks must not hide the next.
	samples := h.samples(from, to)
	values, events := make([]float64, 0, len(samples)), make([]float64, 0, len(samples))
	for _, s := range samples {
		events = append(events, s.events)
		if v, ok := valueOf(m, s); ok {
			values = append(values, v)
		}
	}
	if len(values) < 3*minWeeks {
		return baseline{}, false
	}
	u := baseline{median: median(values), events: median(events), least: slices.Min(values)}
	u.spread = max(spreadOf(values, u.median, to.Sub(from)), leastSpread(m, u, to.Sub(from)))
	return u, true
}

// samples returns the tallies of the same window in the weeks since the agent was
// first seen, shifted by up to an hour. Weeks in which it did nothing count.
func (h hours) samples(from, to time.Time) []tally {
	samples := make([]tally, 0, 3*historyWeeks)
	start, end, known := from.Unix(), to.Unix(), 0
	for back := int64(1); back <= historyWeeks; back++ {
		for shift := int64(-1); shift <= 1; shift++ {
			by := (shift - back*7*24) * hourSeconds
			s := h.between(start+by, end+by)
			samples = append(samples, s)
			if s.events > 0 {
				known = int(back)
			}
		}
	}
	if known < minWeeks {
		return nil
	}
	return samples[:3*known]
}

// spreadOf is the median distance from the median, scaled to what a normal
// distribution calls its standard deviation. Of few samples it is uncertain, so its
// upper end is taken. A window shorter than the hours it was made of varies more.
func spreadOf(values []float64, middle float64, window time.Duration) float64 {
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - middle)
	}
	spread := 1.4826 * median(distances) * (1 + 3/math.Sqrt(float64(len(values))))
	return spread * math.Sqrt(max(1, time.Hour.Hours()/window.Hours()))
}

// leastSpread is what chance alone would spread the value of a metric: twice what it
// does to a sum of so many events.
func leastSpread(m alert.Metric, u baseline, window time.Duration) float64 {
	least := minSpread
	if window > 2*time.Hour {
		least = minDaySpread
	}
	// A sum of n independent events varies by the square root of n.
	perEvent := 2 / math.Sqrt(max(u.events, 1))
	if m == alert.Cost {
		perEvent *= 1.3 // Calls differ in price, too.
	}
	least = max(least, perEvent) * u.median
	switch m {
	case alert.ErrorRate:
		return max(0.01, least, perEvent*math.Sqrt(max(u.median, perEvent*perEvent)))
	case alert.Errors, alert.Unpriced:
		return max(2, least, 2*math.Sqrt(u.median))
	case alert.Cost:
		const cent = 10_000_000
		return max(cent, least)
	}
	return max(1, least)
}

// median returns the middle of values, which are not empty and keep their order.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// valueOf returns the value of a tally; a rate of nothing has none.
func valueOf(m alert.Metric, t tally) (float64, bool) {
	if !isRate(m) {
		return t.num, true
	}
	if t.den <= 0 {
		return 0, false
	}
	return t.num / t.den, true
}

// isRate reports whether a metric is a quotient, so that it cannot be summed over hours.
func isRate(m alert.Metric) bool { return m == alert.ErrorRate || m == alert.LatencyP95 }

// alertsOnDrop reports whether a metric below its baseline is worth an alert: fewer errors are not.
func alertsOnDrop(m alert.Metric) bool {
	switch m {
	case alert.Cost, alert.Events, alert.InputTokens, alert.OutputTokens:
		return true
	}
	return false
}
