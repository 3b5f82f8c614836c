package price

import (
	"cmp"
	"slices"
	"time"
)

// Change is a kind of token that costs something else in another book.
type Change struct {
	Provider, Model string
	Kind            Kind
	// At is an instant at which the prices differ, Above the step of input tokens.
	At    time.Time
	Above int64
	// Before and After are pico-USD a token, -1 where there is no price.
	Before, After Rate
}

// suspiciousFactor is how much a rate may move before it is taken for a mistake.
const suspiciousFactor = 10

// Suspicious reports whether the change is more likely a mistake than a price: to or from zero, by more than ten times,
// or a price that is gone, which would make calls cost nothing.
func (c Change) Suspicious() bool {
	switch {
	case c.Before < 0:
		return false
	case c.Before == 0 || c.After <= 0:
		return c.Before != c.After
	}
	low, high := min(c.Before, c.After), max(c.Before, c.After)
	return high > suspiciousFactor*low
}

// Compare lists what the models of b cost in next where that differs, from an instant on, in no certain order. It compares
// what is charged, fallbacks of unpublished kinds included, and each model of each provider by its own name. Overrides
// are left out.
func (b *Book) Compare(next *Book, from time.Time) []Change {
	var changes []Change
	for _, p := range b.providers {
		var models map[string]*model
		if other := next.byID[p.id]; other != nil {
			models = other.exact
		}
		for name, m := range p.exact {
			if name == m.id {
				changes = m.compare(p.id, models[name], from, changes)
			}
		}
	}
	return changes
}

// compare appends what differs between two histories of a model; next may be nil.
func (m *model) compare(provider string, next *model, from time.Time, changes []Change) []Change {
	if next == nil {
		next = &model{}
	}
	seen := map[[2]*tariff]bool{}
	for _, at := range instants(from, m, next) {
		pair := [2]*tariff{m.at(at), next.at(at)}
		if pair[0] == nil || seen[pair] {
			continue
		}
		seen[pair] = true
		for _, above := range steps(pair) {
			before, after := pair[0].rates(above), pair[1].rates(above)
			for k := range Kinds {
				if before[k] != after[k] {
					changes = append(changes, Change{
						Provider: provider, Model: m.id, Kind: k, At: at, Above: above,
						Before: Rate(before[k]), After: Rate(after[k]),
					})
				}
			}
		}
	}
	return changes
}

// rates are those of a call with more input tokens than above. Without a price nothing has a rate.
func (t *tariff) rates(above int64) rates {
	if t == nil {
		return rates{noRate, noRate, noRate, noRate, noRate, noRate}
	}
	return t.tier(above + 1).rates
}

// steps are the thresholds at which either price changes.
func steps(pair [2]*tariff) []int64 {
	above := []int64{0}
	for _, t := range pair {
		if t == nil {
			continue
		}
		for _, tier := range t.tiers {
			above = append(above, tier.above)
		}
	}
	slices.Sort(above)
	return slices.Compact(above)
}

// instants are times from which on, taken together, every price of two histories is in force at one of them.
func instants(from time.Time, histories ...*model) []time.Time {
	at := []time.Time{from}
	windows := false
	for _, m := range histories {
		for _, e := range m.epochs {
			if e.from > from.Unix() {
				at = append(at, time.Unix(e.from, 0).UTC())
			}
			windows = windows || len(e.windows) > 0
		}
	}
	if windows {
		at = weeks(at)
	}
	slices.SortFunc(at, func(a, b time.Time) int { return cmp.Compare(a.Unix(), b.Unix()) })
	return at
}

// weeks adds every quarter hour of the week after each time: windows of a day start at such, and some are for working
// days only.
func weeks(starts []time.Time) []time.Time {
	const step = 15 * time.Minute
	all := slices.Clone(starts)
	for _, start := range starts {
		for t := start.Truncate(step).Add(step); t.Before(start.AddDate(0, 0, 7)); t = t.Add(step) {
			all = append(all, t)
		}
	}
	return all
}
