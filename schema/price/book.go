package price

import (
	_ "embed"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

//go:embed catalogue.json
var embedded []byte

// Book answers what tokens cost. It does not change and is safe for concurrent use.
type Book struct {
	providers []*provider
	byID      map[string]*provider
	// byAlias holds exact spellings of provider names, byID's included.
	byAlias map[string]*provider
	// cache is shared by the books that With makes: it holds nothing of an account.
	cache     *cache
	overrides *overrides
	// text is what the book was parsed from.
	text []byte
}

// Default returns the book of the embedded catalogue. It is parsed on first use, once.
var Default = sync.OnceValue(func() *Book {
	book, err := Parse(embedded)
	if err != nil {
		panic("BUG: embedded " + err.Error())
	}
	return book
})

// Parse reads a catalogue, the embedded one or one an operator supplies. A catalogue is taken whole or not at all.
// The book keeps the text.
func Parse(b []byte) (*Book, error) {
	file, err := catalogue.Decode(b)
	if err != nil {
		return nil, err
	}
	book := compile(file)
	book.text = b
	return book, nil
}

// Catalogue returns the text that Parse made the book of, which must not be changed. It says nothing of overrides.
func (b *Book) Catalogue() []byte { return b.text }

// Quote prices a call made at the given time. provider may be empty, or any spelling of its name. The error is
// ErrTooLarge or nil; everything else that can be wrong with a price is a Source.
func (b *Book) Quote(provider, model string, at time.Time, u Usage) (Quote, error) {
	r := b.lookup(provider, model)
	q := Quote{Provider: r.provider}
	tariff := b.overrides.find(r, at)
	if tariff != nil {
		q.Model, q.Rule = r.name, tariff.rule
	} else if r.model != nil {
		q.Model, q.Rule = r.model.id, r.rule
		tariff = r.model.at(at)
	}
	if !u.isGiven() {
		q.Source = NoUsage
		return q, nil
	}
	q.Source = Unpriced
	if tariff == nil {
		return q, nil
	}
	tier := tariff.tier(u.Input)
	priced, err := q.charge(split(u), &tier.rates)
	if err != nil {
		return q, err
	}
	if priced {
		q.Source, q.PriceID, q.AboveTokens = Calculated, tariff.id, tier.above
	}
	return q, nil
}

// Provider returns the provider detected from a model name, or "".
func (b *Book) Provider(model string) string { return b.lookup("", model).provider }

// lookup is resolve, remembered.
func (b *Book) lookup(provider, model string) *resolved {
	slot, r := b.cache.get(provider, model)
	if r == nil {
		r = b.resolve(provider, model)
		b.cache.put(slot, r)
	}
	return r
}
