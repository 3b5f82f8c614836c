package price_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/price"
)

// What is shown is what is charged: for every model of the catalogue, in two years, with and without an account's own
// prices, a million tokens of each kind cost the rate that its entry names.
func TestEntriesAreWhatIsCharged(t *testing.T) {
	t.Parallel()
	two, three := price.Rate(2_000_000), price.Rate(3_000_000)
	own := price.Default().With([]price.Override{{Match: "gpt-4*", Provider: "openai", Rates: price.Rates{Input: &two, Output: &three}}})
	for _, book := range []*price.Book{price.Default(), own} {
		for _, at := range []time.Time{time.Date(2025, 2, 1, 17, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)} {
			entries := book.Entries("", at)
			if len(entries) < 1000 {
				t.Fatalf("%d entries at %v", len(entries), at)
			}
			for _, e := range entries {
				checkEntry(t, book, e, at)
			}
		}
	}
}

func checkEntry(t *testing.T, book *price.Book, e price.Entry, at time.Time) {
	t.Helper()
	found, ok := book.Find(e.Provider, e.Model, at)
	if diff := cmp.Diff(e, found); !ok || diff != "" {
		t.Errorf("Find(%s, %s) = %v (-listed +found):\n%s", e.Provider, e.Model, ok, diff)
	}
	for _, step := range e.Steps {
		const n = 1_000_000
		for k, u := range map[price.Kind]price.Usage{
			price.Input: {Input: n}, price.CacheRead: {Input: n, CacheRead: n}, price.CacheWrite: {Input: n, CacheWrite: n},
			price.CacheWrite1h: {Input: n, CacheWrite1h: n}, price.Output: {Output: n}, price.Reasoning: {Output: n, Reasoning: n},
		} {
			// Half of the steps start above a million or below: the input has to be in the step.
			if last := &e.Steps[len(e.Steps)-1]; u.Input > 0 && step.Above != last.Above || u.Input == 0 && step.Above != 0 {
				continue
			}
			q, err := book.Quote(e.Provider, e.Model, at, u)
			if err != nil {
				t.Fatal(err)
			}
			if u.Input > 0 && q.Source == price.Calculated && q.AboveTokens != step.Above {
				continue
			}
			want := "unpriced"
			if rate := step.Rates[k]; rate != nil {
				want = rate.String()
			}
			got := string(q.Source)
			if q.Source == price.Calculated {
				got = price.Rate(q.Parts[k].RatePicoUSD).String()
			}
			if got != want {
				t.Errorf("%s/%s %v above %d: shown %s, charged %s", e.Provider, e.Model, k, step.Above, want, got)
			}
		}
	}
}

// A provider is found in any spelling, and one that is not there has no entries.
func TestEntriesOfAProvider(t *testing.T) {
	t.Parallel()
	book, at := price.Default(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := book.Entries(" OpenAI ", at)
	if len(one) == 0 || len(one) == len(book.Entries("", at)) {
		t.Fatalf("%d entries of one provider", len(one))
	}
	for _, e := range one {
		if e.Provider != "openai" {
			t.Errorf("%+v is not openai's", e)
		}
	}
	if got := book.Entries("nobody", at); got != nil {
		t.Errorf("%d entries of nobody", len(got))
	}
}
