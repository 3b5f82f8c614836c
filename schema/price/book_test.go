package price

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// The embedded catalogue is as its encoder writes it, so that a regenerated one differs only where prices do.
func TestEmbeddedCatalogueIsCanonical(t *testing.T) {
	t.Parallel()
	file, err := catalogue.Decode(embedded)
	if err != nil {
		t.Fatal(err)
	}
	b, err := catalogue.Encode(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(embedded), string(b)); diff != "" {
		t.Errorf("catalogue (-embedded +encoded):\n%s", diff)
	}
}

// Every model of the catalogue answers to each of its names, at its provider, with a price or a reason.
func TestEveryModelAnswersToItsNames(t *testing.T) {
	t.Parallel()
	file, err := catalogue.Decode(embedded)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Providers {
		for _, m := range p.Models {
			for _, name := range append([]string{m.ID}, m.Names...) {
				q := mustQuote(t, Default(), p.ID, name, today, Usage{Input: 1, Output: 1})
				if q.Provider != p.ID || q.Model != m.ID {
					t.Errorf("%s/%s is read as %s/%s (%s)", p.ID, name, q.Provider, q.Model, q.Rule)
				}
				if (q.Source == Calculated) != (len(m.Prices) > 0) {
					t.Errorf("%s/%s with %d prices is %s", p.ID, name, len(m.Prices), q.Source)
				}
			}
		}
	}
}

// Anthropic publishes an hour in the cache at twice the input and five minutes at 1.25 times; every seller's
// entry with a price for writing to the cache has the first.
func TestClaudeCacheWritesAreTwiceTheInput(t *testing.T) {
	t.Parallel()
	seen := 0
	file, err := catalogue.Decode(embedded)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Providers {
		for _, m := range p.Models {
			for _, price := range m.Prices {
				if price.CacheWrite1h == nil {
					continue
				}
				seen++
				if *price.CacheWrite1h != 2**price.Input {
					t.Errorf("%s/%s writes for an hour at %s, input is %s", p.ID, m.ID, price.CacheWrite1h, price.Input)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d prices for an hour in the cache, want at least 50", seen)
	}
}

func TestParseRefusesWhatIsNotACatalogue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "null", "[]", `{"version":1}{`, `{"version":9,"providers":[]}`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%q) passed", text)
		}
	}
}
