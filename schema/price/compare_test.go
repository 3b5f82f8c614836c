package price

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// bookOf parses a catalogue of one provider with the given models.
func bookOf(t *testing.T, models string) *Book {
	t.Helper()
	b, err := Parse([]byte(`{"version":1,"providers":[{"id":"p","models":[` + models + `]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every difference in what a token costs is found: in the kinds, in steps, in windows of the day, now and later; and
// nothing else is.
func TestCompareFindsWhatCostsSomethingElse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.June, 10, 12, 7, 0, 0, time.UTC)
	for _, c := range []struct{ name, before, after, want string }{
		{"the same", `{"id":"m","prices":[{"input":1,"output":2}]}`, `{"id":"m","names":["n"],"prices":[{"input":1.0,"output":2}]}`, ""},
		{"one kind", `{"id":"m","prices":[{"input":1,"output":2}]}`, `{"id":"m","prices":[{"input":1,"output":3}]}`, "m output 2 3, m reasoning 2 3"},
		{
			"a cached kind gets its own", `{"id":"m","prices":[{"input":1}]}`, `{"id":"m","prices":[{"input":1,"cache_read":0.1}]}`,
			"m cache_read 1 0.1",
		},
		{
			"a new step", `{"id":"m","prices":[{"input":1}]}`, `{"id":"m","prices":[{"input":1,"cache_read":1,"above":[{"tokens":100,"input":50,"cache_read":1,"cache_write":1,"cache_write_1h":1}]}]}`,
			"m input 1 50 above 100",
		},
		{"a later price", `{"id":"m","prices":[{"input":1,"cache_read":1,"cache_write":1}]}`, `{"id":"m","prices":[{"input":1,"cache_read":1,"cache_write":1},{"from":"2026-07-01","input":0,"cache_read":1,"cache_write":1,"cache_write_1h":1}]}`, "m input 1 0"},
		{"long past", `{"id":"m","prices":[{"input":1},{"from":"2026-05-01","input":2}]}`, `{"id":"m","prices":[{"input":9},{"from":"2026-05-01","input":2}]}`, ""},
		{
			"a window of the working day", `{"id":"m","prices":[{"input":1,"cache_read":1,"cache_write":1}]}`,
			`{"id":"m","prices":[{"input":1,"cache_read":1,"cache_write":1},{"daily":{"start":"03:30","end":"03:45","weekdays":true},"input":30,"cache_read":1,"cache_write":1,"cache_write_1h":1}]}`, "m input 1 30",
		},
		{"a new model", ``, `{"id":"m","prices":[{"input":1}]}`, ""},
		{"no price before", `{"id":"m"}`, `{"id":"m","prices":[{"input":1}]}`, ""},
	} {
		var got []string
		for _, change := range bookOf(t, c.before).Compare(bookOf(t, c.after), now) {
			line := fmt.Sprintf("%s %s %s %s", change.Model, change.Kind, change.Before, change.After)
			if change.Above > 0 {
				line += fmt.Sprint(" above ", change.Above)
			}
			got = append(got, line)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

// A price that is gone makes calls cost nothing, which is a change to nothing.
func TestSuspicious(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after Rate
		want          bool
	}{
		{1, 2, false}, {1, 10, false}, {1, 11, true}, {10, 1, false}, {11, 1, true}, {0, 1, true}, {1, 0, true}, {0, 0, false}, {1, -1, true}, {0, -1, true}, {-1, 5, false}, {-1, 0, false},
	} {
		if got := (Change{Before: c.before, After: c.after}).Suspicious(); got != c.want {
			t.Errorf("from %d to %d: suspicious %v, want %v", c.before, c.after, got, c.want)
		}
	}
	gone := bookOf(t, `{"id":"m","prices":[{"input":1,"output":1}]}`).Compare(bookOf(t, ``), time.Now())
	if len(gone) == 0 || !slices.ContainsFunc(gone, Change.Suspicious) {
		t.Errorf("a model without a price any more: %v, want suspicious changes", gone)
	}
}

// The built-in catalogue does not differ from itself.
func TestCompareWithItself(t *testing.T) {
	t.Parallel()
	other, err := Parse(embedded)
	if err != nil {
		t.Fatal(err)
	}
	if changes := Default().Compare(other, time.Now()); len(changes) > 0 {
		t.Errorf("%d changes, the first %+v", len(changes), changes[0])
	}
}
