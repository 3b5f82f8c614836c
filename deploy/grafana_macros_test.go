package deploy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// view is what someone who looks at a dashboard has chosen, and what Grafana makes of it.
type view struct {
	From, To time.Time
	// Interval is the width of one bar. Grafana derives it from the range and the panel's width and never goes below the panel's own minimum.
	Interval time.Duration
	// Variables are the dashboard's own, by name. More than one value is what "All" or a choice of several gives.
	Variables map[string][]string
	// Timescale is the data source's jsonData.timescaledb.
	Timescale bool
}

var (
	variable  = regexp.MustCompile(`\$\{(\w+)(?::(\w+))?\}`)
	macroCall = regexp.MustCompile(`\$(__\w+)\(([^)]*)\)`)
)

// expand does to a panel's query what Grafana does before it runs it: the browser puts in the variables, the data source's back end the macros.
func (v view) expand(t *testing.T, query string) string {
	t.Helper()
	query = strings.ReplaceAll(query, "$__interval_ms", strconv.FormatInt(v.Interval.Milliseconds(), 10))
	query = strings.ReplaceAll(query, "$__interval", fmt.Sprintf("%ds", int(v.Interval.Seconds())))
	query = variable.ReplaceAllStringFunc(query, func(use string) string {
		m := variable.FindStringSubmatch(use)
		values, ok := v.Variables[m[1]]
		if !ok || m[2] != "sqlstring" {
			t.Errorf("%s: an unknown variable, or one that is put into SQL unquoted", use)
		}
		quoted := make([]string, len(values))
		for i, value := range values {
			quoted[i] = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		}
		return strings.Join(quoted, ",")
	})
	query = macroCall.ReplaceAllStringFunc(query, func(call string) string {
		m := macroCall.FindStringSubmatch(call)
		return v.macro(t, m[1], strings.Split(m[2], ","))
	})
	if strings.Contains(query, "$__") || strings.Contains(query, "${") {
		t.Errorf("not expanded: %s", query)
	}
	return query
}

// macro knows those that the dashboards use; a panel that uses another one needs it here first.
func (v view) macro(t *testing.T, name string, args []string) string {
	t.Helper()
	column := strings.TrimSpace(args[0])
	switch {
	case name == "__timeFilter" && len(args) == 1:
		return fmt.Sprintf("%s BETWEEN '%s' AND '%s'", column, v.From.UTC().Format(time.RFC3339Nano), v.To.UTC().Format(time.RFC3339Nano))
	case name == "__timeGroupAlias" && len(args) == 2:
		return v.group(t, column, strings.TrimSpace(args[1])) + ` AS "time"`
	}
	t.Errorf("$%s with %d arguments is not known here", name, len(args))
	return ""
}

func (v view) group(t *testing.T, column, interval string) string {
	t.Helper()
	width, err := time.ParseDuration(interval)
	if err != nil {
		t.Errorf("interval %q: %v", interval, err)
	}
	if v.Timescale {
		return fmt.Sprintf("time_bucket('%.3fs',%s)", width.Seconds(), column)
	}
	return fmt.Sprintf("floor(extract(epoch from %s)/%v)*%[2]v", column, width.Seconds())
}

// The expansion is Grafana's, checked against what its documentation and its source say.
func TestExpandDoesWhatGrafanaDoes(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	v := view{From: from, To: from.Add(time.Hour), Interval: 15 * time.Minute, Variables: map[string][]string{"a": {"x", "o'y"}}, Timescale: true}
	const query = `select $__timeGroupAlias(bucket, $__interval), n / ($__interval_ms / 1000.0) from t where $__timeFilter(bucket) and a in (${a:sqlstring})`
	for timescale, want := range map[bool]string{
		true:  `select time_bucket('900.000s',bucket) AS "time", n / (900000 / 1000.0) from t where bucket BETWEEN '2026-03-01T00:00:00Z' AND '2026-03-01T01:00:00Z' and a in ('x','o''y')`,
		false: `select floor(extract(epoch from bucket)/900)*900 AS "time", n / (900000 / 1000.0) from t where bucket BETWEEN '2026-03-01T00:00:00Z' AND '2026-03-01T01:00:00Z' and a in ('x','o''y')`,
	} {
		v.Timescale = timescale
		if got := v.expand(t, query); got != want {
			t.Errorf("expand(timescale %v) =\n%s, want\n%s", timescale, got, want)
		}
	}
}
