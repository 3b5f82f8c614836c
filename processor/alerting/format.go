package alerting

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/outlayhq/outlay/schema/alert"
)

// formatWindow writes a window as hours or minutes.
func formatWindow(w alert.Window) string {
	if w%60 == 0 {
		return fmt.Sprintf("%d h", w/60)
	}
	return fmt.Sprintf("%d min", int(w))
}

// formatPeriod describes the time that a value is of.
func formatPeriod(r *alert.Rule) string {
	if r.Metric == alert.BudgetUsed {
		return "of the cap spent"
	}
	return "in " + formatWindow(r.Window)
}

// formatValue writes a value of a metric with its unit; money comes in nano-dollars.
func formatValue(m alert.Metric, v float64) string {
	switch m {
	case alert.Cost:
		return "$" + formatNumber(m, v)
	case alert.Events, alert.Errors:
		return plural(formatNumber(m, v), strings.TrimSuffix(string(m), "s"))
	case alert.Unpriced:
		return plural(formatNumber(m, v), "unpriced event")
	case alert.ErrorRate:
		return formatNumber(m, v) + " errors"
	case alert.InputTokens:
		return formatNumber(m, v) + " input tokens"
	case alert.OutputTokens:
		return formatNumber(m, v) + " output tokens"
	case alert.LatencyP95:
		return formatNumber(m, v) + " ms p95 latency"
	}
	return formatNumber(m, v)
}

// plural writes a thing with its number, which was formatted.
func plural(n, thing string) string {
	if n == "1" {
		return n + " " + thing
	}
	return n + " " + thing + "s"
}

// nanoPerUSD is how many nano-dollars a dollar has.
const nanoPerUSD = 1e9

// formatNumber writes a value without its unit.
func formatNumber(m alert.Metric, v float64) string {
	switch m {
	case alert.Cost:
		usd := v / nanoPerUSD
		if usd != 0 && math.Abs(usd) < 0.1 {
			return strconv.FormatFloat(roundTo(usd, 2), 'f', -1, 64)
		}
		return fmt.Sprintf("%.2f", usd)
	case alert.ErrorRate, alert.BudgetUsed:
		return strconv.FormatFloat(roundTo(v*100, 3), 'f', -1, 64) + " %"
	}
	return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
}

// roundTo keeps so many significant digits.
func roundTo(v float64, digits int) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // What FormatFloat writes can be read.
	return rounded
}
