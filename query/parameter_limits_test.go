package query_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema"
)

// What would take long to answer is refused with the parameter named: more items on a page than 500, more than 10 000 rows,
// years that nobody has events of, texts longer than any name, and pages counted from the start.
func TestExpensiveQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	alices := w.alice.ids("alices")
	values := map[string][]string{
		"limit":  {"501", "1000000", "9223372036854775807", "99999999999999999999", "-1", "0"},
		"from":   {"0001-01-01", "1999-12-31", "-1"},
		"to":     {"9999-12-31T23:59:59Z", "2200-01-02"},
		"q":      {strings.Repeat("x", 201), strings.Repeat("ü", 201)},
		"agent":  {strings.Repeat("x", 201)},
		"offset": {"1000000"}, "page": {"1000000"},
		"cursor": {strings.Repeat("x", 4000)},
	}
	asked := map[string]int{}
	for _, e := range endpoints() {
		if e.method != http.MethodGet {
			continue
		}
		parameters := append(e.parameters(t), "offset", "page")
		if !strings.HasPrefix(e.path, "/v1/") || e.path == "/v1/share/{token}" {
			continue // A page for people, and what was shared, are of one session.
		}
		for name, all := range values {
			if !slices.Contains(parameters, name) {
				continue
			}
			for _, value := range all {
				refusal := w.alice.get(e.at(alices) + "?" + url.Values{name: {value}}.Encode()).refused(http.StatusUnprocessableEntity)
				if !slices.ContainsFunc(refusal.Errors, func(f schema.Fault) bool { return f.Field == name }) {
					t.Errorf("%s?%s=%.40s: %+v, want an error of %s", e.path, name, value, refusal, name)
				}
			}
			asked[name]++
		}
	}
	for name := range values {
		if asked[name] < 3 {
			t.Errorf("%s is a parameter of %d endpoints", name, asked[name])
		}
	}
	for _, path := range []string{
		"/v1/analytics/hourly?from=2000-01-01&to=2200-01-01&group_by=agent,model,provider", "/v1/analytics/daily?from=2000-01-01&to=2200-01-01",
		"/v1/analytics/hourly?from=2016-01-01&to=2026-01-01&timezone=Asia/Kathmandu", "/v1/analytics/hourly?from=2016-01-01&to=2026-01-01&format=csv",
	} {
		w.alice.get(path).refused(http.StatusUnprocessableEntity)
	}
}
