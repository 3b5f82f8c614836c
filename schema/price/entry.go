package price

import (
	"cmp"
	"slices"
	"time"
)

// Entry is a price in force, as people read it.
type Entry struct {
	// Provider is canonical, or the caller's own word; Model is the catalogue's name, or the caller's for a price of an
	// account. PriceID and Rule are as in Quote.
	Provider, Model, PriceID, Rule string
	// Own says that it is a price of the account and not a published one.
	Own bool
	// Steps are the rates by length of the input, the base first.
	Steps []EntryStep
}

// EntryStep is what each kind of token costs in a call whose input exceeds Above tokens. Kinds without a published rate
// have the one that is charged for them; nil is one that cannot be priced.
type EntryStep struct {
	Above int64
	Rates [Kinds]*Rate
}

// Find returns the price of a call made at the given time, or false when there is none.
func (b *Book) Find(provider, model string, at time.Time) (Entry, bool) {
	return b.entry(b.lookup(provider, model), at)
}

// Entries lists the price of every model of the catalogue by its own name, or of one provider's in any spelling of its
// name, as far as there is one at the given time: by provider, then by model.
func (b *Book) Entries(seller string, at time.Time) []Entry {
	var only *provider
	if seller != "" {
		if only = b.alias(normalise(seller)); only == nil {
			return nil
		}
	}
	var list []Entry
	for _, p := range b.providers {
		if only != nil && p != only {
			continue
		}
		for name, m := range p.exact {
			if name != m.id {
				continue
			}
			if entry, ok := b.entry(&resolved{provider: p.id, name: normalise(m.id), model: m, rule: "equals " + m.id}, at); ok {
				list = append(list, entry)
			}
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return list
}

// entry decides as Quote does.
func (b *Book) entry(r *resolved, at time.Time) (Entry, bool) {
	e := Entry{Provider: r.provider, Model: r.name}
	tariff := b.overrides.find(r, at)
	switch {
	case tariff != nil:
		e.Own, e.Rule = true, tariff.rule
	case r.model != nil:
		e.Model, e.Rule = r.model.id, r.rule
		tariff = r.model.at(at)
	}
	if tariff == nil {
		return Entry{}, false
	}
	e.PriceID = tariff.id
	for _, t := range tariff.tiers {
		e.Steps = append(e.Steps, newEntryStep(t))
	}
	return e, true
}

func newEntryStep(t tier) EntryStep {
	step := EntryStep{Above: t.above}
	for k, rate := range t.rates {
		if rate != noRate {
			published := Rate(rate)
			step.Rates[k] = &published
		}
	}
	return step
}
