package price

import (
	"math"
	"time"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// provider is a catalogue.Provider ready for matching.
type provider struct {
	id       string
	aliases  []matcher
	detect   []matcher
	fallback []*provider
	exact    map[string]*model
	rules    []modelRule
}

// modelRule leads to a model by one of its rules.
type modelRule struct {
	matcher
	model *model
}

// model is a price history.
type model struct {
	id     string
	epochs []epoch
}

// epoch is what holds from an instant on, until the next one.
type epoch struct {
	from    int64 // Unix seconds
	base    *tariff
	windows []window
}

// window is a tariff for a part of each day.
type window struct {
	catalogue.Window
	tariff *tariff
}

// tariff is one price: rates in ascending order of the step they start above, the base first.
type tariff struct {
	id    string
	rule  string // set for overrides only
	tiers []tier
}

type tier struct {
	above int64
	rates rates
}

// tier returns the rates for a call with so many input tokens, which hold for every token of it.
func (t *tariff) tier(input int64) *tier {
	i := len(t.tiers) - 1
	for i > 0 && input <= t.tiers[i].above {
		i--
	}
	return &t.tiers[i]
}

// at returns the tariff in force, nil when there is none.
func (m *model) at(at time.Time) *tariff {
	seconds := at.Unix()
	for i := len(m.epochs) - 1; i >= 0; i-- {
		e := &m.epochs[i]
		if seconds < e.from {
			continue
		}
		for _, w := range e.windows {
			if w.Contains(at) {
				return w.tariff
			}
		}
		return e.base
	}
	return nil
}

// compile turns a checked file into a book.
func compile(file *catalogue.File) *Book {
	b := &Book{byID: map[string]*provider{}, byAlias: map[string]*provider{}, cache: newCache()}
	for _, p := range file.Providers {
		compiled := compileProvider(p)
		b.providers = append(b.providers, compiled)
		b.byID[p.ID] = compiled
		b.byAlias[p.ID] = compiled
	}
	for i, p := range file.Providers {
		for _, id := range p.Fallback {
			b.providers[i].fallback = append(b.providers[i].fallback, b.byID[id])
		}
		for _, alias := range p.Aliases {
			if name := lower(alias.Equals); name != "" && b.byAlias[name] == nil {
				b.byAlias[name] = b.providers[i]
			}
		}
	}
	return b
}

func compileProvider(p catalogue.Provider) *provider {
	out := &provider{id: p.ID, exact: map[string]*model{}}
	for _, r := range p.Aliases {
		out.aliases = append(out.aliases, newMatcher(r))
	}
	for _, r := range p.Detect {
		out.detect = append(out.detect, newMatcher(r))
	}
	for _, m := range p.Models {
		compiled := compileModel(p.ID, m)
		for _, name := range append([]string{m.ID}, m.Names...) {
			out.exact[name] = compiled
		}
		for _, r := range m.Rules {
			out.rules = append(out.rules, modelRule{newMatcher(r), compiled})
		}
	}
	return out
}

func compileModel(providerID string, m catalogue.Model) *model {
	out := &model{id: m.ID}
	for _, price := range m.Prices {
		id := providerID + "/" + m.ID
		if from := price.From.String(); from != "" {
			id += "@" + from
		}
		if price.Daily == nil {
			out.epochs = append(out.epochs, epoch{from: unix(price.From.Time), base: newTariff(id, price)})
			continue
		}
		id += "@" + price.Daily.Start.String() + "-" + price.Daily.End.String()
		last := &out.epochs[len(out.epochs)-1]
		last.windows = append(last.windows, window{*price.Daily, newTariff(id, price)})
	}
	return out
}

// unix is the instant in seconds; the zero time, "since ever", is before every other.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.Unix()
}

// newTariff returns nil for a price without any rate: known not to be sold by the token.
func newTariff(id string, price catalogue.Price) *tariff {
	if price.Rates.IsZero() {
		return nil
	}
	t := &tariff{id: id, tiers: []tier{{rates: newRates(price.Rates)}}}
	for _, step := range price.Above {
		t.tiers = append(t.tiers, tier{step.Tokens, newRates(step.Rates)})
	}
	return t
}

// newRates fills what is not published: cached kinds cost as input and reasoning as output, never nothing.
// An hour in the cache costs at least as a short time in it.
func newRates(r Rates) rates {
	or := func(published *Rate, fallback int64) int64 {
		if published == nil || *published < 0 {
			return fallback
		}
		return int64(*published)
	}
	input, output := or(r.Input, noRate), or(r.Output, noRate)
	write := or(r.CacheWrite, input)
	return rates{
		Input: input, CacheRead: or(r.CacheRead, input), CacheWrite: write, CacheWrite1h: or(r.CacheWrite1h, max(write, input)),
		Output: output, Reasoning: or(r.Reasoning, output),
	}
}
