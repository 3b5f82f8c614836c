package catalogue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Rates are exact decimals, and what is not one is refused rather than rounded.
func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Rate{
		"0": 0, "0.0": 0, "2.5": 2_500_000, "10": 10_000_000, "0.003625": 3625, "0.000001": 1, "600.1": 600_100_000, "1000000": MaxRate, "007": 7_000_000,
	} {
		if got, err := ParseRate(text); got != want || err != nil {
			t.Errorf("ParseRate(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "1e3", "1E-7", "NaN", "Inf", ".5", "5.", "1.0000001", "1,5", "1 ", " 1", "0x1", "1_0", "1.2.3", "1000000.000001", "1000001", "99999999", "١",
		strings.Repeat("9", 400),
	} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %d, want an error", text, got)
		}
	}
}

func TestAppendDecimal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v      int64
		places int
		want   string
	}{
		{0, 9, "0"},
		{1, 9, "0.000000001"},
		{7500, 9, "0.0000075"},
		{1_000_000_000, 9, "1"},
		{10_500_000_000, 9, "10.5"},
		{1_000_000_000_000_000, 9, "1000000"},
		{123, 0, "123"},
		{9223372036854775807, 9, "9223372036.854775807"},
	}
	for _, tt := range tests {
		if got := string(AppendDecimal(nil, tt.v, tt.places)); got != tt.want {
			t.Errorf("AppendDecimal(%d, %d) = %s, want %s", tt.v, tt.places, got, tt.want)
		}
	}
}

// wrap puts a model into a file.
func wrap(model string) string {
	return `{"version":1,"providers":[{"id":"p","models":[` + model + `]}]}`
}

// A file with anything wrong in it is refused as a whole.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, want string }{
		{"nothing", ``, "EOF"},
		{"other format", `{"version":2,"providers":[]}`, "format version"},
		{"no version", `{"providers":[]}`, "format version"},
		{"unknown field", `{"version":1,"providers":[],"x":1}`, "unknown field"},
		{"trailing data", `{"version":1,"providers":[]} {}`, "after the end"},
		{"provider twice", `{"version":1,"providers":[{"id":"p"},{"id":"p"}]}`, "twice"},
		{"provider without a name", `{"version":1,"providers":[{"id":""}]}`, "0 bytes"},
		{"upper case", `{"version":1,"providers":[{"id":"P"}]}`, "upper-case"},
		{"fallback to nobody", `{"version":1,"providers":[{"id":"p","fallback":["q"]}]}`, "fallback"},
		{"fallback to itself", `{"version":1,"providers":[{"id":"p","fallback":["p"]}]}`, "fallback"},
		{"name twice", wrap(`{"id":"m"},{"id":"n","names":["m"]}`), "twice"},
		{"name that nobody can send", wrap(`{"id":"m","names":["é"]}`), "ASCII"},
		{"NUL in a name", wrap(`{"id":"m\u0000"}`), "ASCII"},
		{"name too long", wrap(`{"id":"` + strings.Repeat("m", 201) + `"}`), "201 bytes"},
		{"empty rule", wrap(`{"id":"m","rules":[{}]}`), "exactly one"},
		{"rule with two tests", wrap(`{"id":"m","rules":[{"equals":"a","contains":"b"}]}`), "exactly one"},
		{"bad expression", wrap(`{"id":"m","rules":[{"regex":"("}]}`), "compile"},
		{"look-ahead", wrap(`{"id":"m","rules":[{"regex":"^(?!x)"}]}`), "compile"},
		{"bad expression inside", wrap(`{"id":"m","rules":[{"not":{"regex":"("}}]}`), "compile"},
		{"rule nested too deep", wrap(`{"id":"m","rules":[{"not":{"not":{"not":{"not":{"equals":"a"}}}}}]}`), "nested"},
		{"rate with an exponent", wrap(`{"id":"m","prices":[{"input":1e2}]}`), "decimal"},
		{"negative rate", wrap(`{"id":"m","prices":[{"input":-1}]}`), "decimal"},
		{"rate in a string", wrap(`{"id":"m","prices":[{"input":"1"}]}`), "decimal"},
		{"first price with a window", wrap(`{"id":"m","prices":[{"daily":{"start":"01:00","end":"02:00"},"input":1}]}`), "without daily"},
		{"later price with a window only", wrap(`{"id":"m","prices":[{"input":1},{"from":"2026-01-01","daily":{"start":"01:00","end":"02:00"},"input":1}]}`), "without daily"},
		{"two prices at once", wrap(`{"id":"m","prices":[{"input":1},{"input":2}]}`), "without daily"},
		{"prices out of order", wrap(`{"id":"m","prices":[{"from":"2026-01-01","input":1},{"from":"2025-01-01","input":2}]}`), "order"},
		{"bad date", wrap(`{"id":"m","prices":[{"from":"2026-02-30","input":1}]}`), "neither a date"},
		{"date as a number", wrap(`{"id":"m","prices":[{"from":2026,"input":1}]}`), "not a date"},
		{"bad time", wrap(`{"id":"m","prices":[{"input":1},{"daily":{"start":"24:00","end":"02:00"},"input":1}]}`), "time of day"},
		{"empty window", wrap(`{"id":"m","prices":[{"input":1},{"daily":{"start":"02:00","end":"02:00"},"input":1}]}`), "empty"},
		{"steps out of order", wrap(`{"id":"m","prices":[{"input":1,"above":[{"tokens":2,"input":1},{"tokens":2,"input":1}]}]}`), "ascending"},
		{"step at nothing", wrap(`{"id":"m","prices":[{"input":1,"above":[{"tokens":0,"input":1}]}]}`), "ascending"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

// Encode and Decode are each other's inverse, and Encode checks what it is given.
func TestEncodeRoundTrip(t *testing.T) {
	t.Parallel()
	half, two := Rate(500_000), Rate(2_000_000)
	file := &File{
		Version: FormatVersion, Source: "test",
		Providers: []Provider{
			{ID: "empty", Fallback: []string{"p"}},
			{
				ID: "p", Aliases: []Rule{{Equals: "q"}}, Detect: []Rule{{Regex: `^<m>\d`}},
				Models: []Model{
					{ID: "m", Names: []string{"n"}, Rules: []Rule{{And: []Rule{{StartsWith: "m"}, {Not: &Rule{EndsWith: "x"}}}}}, Prices: []Price{
						{Rates: Rates{Input: &half, Output: new(Rate)}, Above: []Step{{200_000, Rates{Input: &two}}}},
						{From: Date{time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, Rates: Rates{Input: &two}},
						{From: Date{time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, Daily: &Window{Start: 23 * 60, End: 90, Weekdays: true}, Rates: Rates{Input: &half}},
						{From: Date{time.Date(2026, 1, 2, 16, 0, 0, 0, time.UTC)}, Rates: Rates{Reasoning: &two}},
					}},
					{ID: "o"},
				},
			},
		},
	}
	b, err := Encode(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatalf("Decode: %v\n%s", err, b)
	}
	if diff := cmp.Diff(file, got); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	file.Providers[0].ID = "Bad"
	if _, err := Encode(file); err == nil {
		t.Error("Encode wrote a file that Decode refuses")
	}
}

func TestWindowContains(t *testing.T) {
	t.Parallel()
	night := Window{Start: 23 * 60, End: 90}
	week := Window{Start: 60, End: 120, Weekdays: true}
	tests := []struct {
		window Window
		at     string
		want   bool
	}{
		{night, "2026-01-05T22:59:59Z", false},
		{night, "2026-01-05T23:00:00Z", true},
		{night, "2026-01-06T01:29:59Z", true},
		{night, "2026-01-06T01:30:00Z", false},
		{week, "2026-01-02T01:00:00Z", true},  // a Friday
		{week, "2026-01-03T01:00:00Z", false}, // a Saturday
		{week, "2026-01-04T01:00:00Z", false}, // a Sunday
		{week, "2026-01-05T02:00:00Z", false}, // a Monday, too late
	}
	for _, tt := range tests {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.window.Contains(at); got != tt.want {
			t.Errorf("%+v contains %s = %v, want %v", tt.window, tt.at, got, tt.want)
		}
	}
}

func TestRuleString(t *testing.T) {
	t.Parallel()
	r := Rule{Or: []Rule{{Equals: "a"}, {And: []Rule{{StartsWith: "b"}, {Not: &Rule{Regex: "c$"}}}}, {EndsWith: "d"}, {Contains: "e"}}}
	const want = "equals a or starts_with b and not regex c$ or ends_with d or contains e"
	if got := r.String(); got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}
