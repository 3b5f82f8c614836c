package alert

import (
	"math"
	"strconv"

	"github.com/outlayhq/outlay/schema"
)

// String returns the window as the API writes it.
func (w Window) String() string {
	if w >= Hour {
		return strconv.Itoa(int(w/Hour)) + "h"
	}
	return strconv.Itoa(int(w)) + "m"
}

// ParseWindow reads what String writes.
func ParseWindow(text string) (Window, bool) {
	for _, w := range []Window{FiveMinutes, FifteenMinutes, Hour, Day} {
		if w.String() == text {
			return w, true
		}
	}
	return 0, false
}

// Shown returns a value of the metric as JSON shows it: money in dollars, everything
// else as it is.
func (m Metric) Shown(v float64) any {
	if m == Cost {
		return schema.NanoUSD(math.Round(v))
	}
	return v
}
