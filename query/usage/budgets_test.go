package usage_test

import (
	"testing"
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// The share that is used is rounded down, so that it is 1 only when the cap is
// reached.
func TestCapUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spent, limit schema.NanoUSD
		want         float64
	}{
		{0, 10, 0},
		{3, 10, 0.3},
		{1, 3, 0.3333},
		{2, 3, 0.6666},
		{9_999_999, 10_000_000, 0.9999},
		{10, 10, 1},
		{15, 10, 1.5},
		{0, 0, 1},
		{5, 0, 1},
		{budget.MaxLimit, budget.MaxLimit, 1},
		{budget.MaxLimit - 1, budget.MaxLimit, 0.9999},
		{9_223_372_036_854_775_807, 1, 9_223_372_036_854_775_807},
	} {
		b := usage.Cap{Budget: budget.Budget{Limit: c.limit}, State: budget.State{Spent: schema.SumOf(c.spent)}}
		if got := b.Used(); got != c.want {
			t.Errorf("Used of %d of %d = %v, want %v", c.spent, c.limit, got, c.want)
		}
	}
}

// What is projected is what is spent and, for the rest of the period, the pace
// since its start or the last reset, which is not told from less than an hour.
func TestCapProjected(t *testing.T) {
	t.Parallel()
	ten := schema.SumOf(int64(10))
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	w := budget.Window{Start: start, End: start.Add(24 * time.Hour)}
	at := func(d time.Duration) *time.Time { t := start.Add(d); return &t }
	for _, c := range []struct {
		name  string
		after time.Duration
		reset *time.Time
		want  string
	}{
		{"a quarter over", 6 * time.Hour, nil, "0.00000004"},
		{"at the end", 24 * time.Hour, nil, "0.00000001"},
		{"in the first minute", time.Minute, nil, "0.000000249"},
		{"reset an hour ago", 12 * time.Hour, at(11 * time.Hour), "0.00000013"},
		{"reset just now", 12 * time.Hour, at(12 * time.Hour), "0.00000013"},
		{"reset by a clock that is ahead", 12 * time.Hour, at(13 * time.Hour), "0.00000013"},
	} {
		b := usage.Cap{Budget: budget.Budget{Period: budget.Day}, Window: w, AsOf: start.Add(c.after), State: budget.State{Spent: ten, ResetAt: c.reset}}
		if got := b.Projected().String(); got != c.want {
			t.Errorf("%s: projected %s, want %s", c.name, got, c.want)
		}
	}
	b := usage.Cap{Budget: budget.Budget{Period: budget.Total}, State: budget.State{Spent: ten}}
	if got := b.Projected(); got != nil {
		t.Errorf("a cap that never ends is projected to %s", got)
	}
	b = usage.Cap{Budget: budget.Budget{Period: budget.Day}, Window: w, AsOf: start.Add(time.Hour), State: budget.State{Spent: schema.SumOf(int64(9_000_000_000_000_000_000))}}
	if got := b.Projected().String(); got != "216000000000" {
		t.Errorf("projected %s, want more than an int64 holds", got)
	}
}
