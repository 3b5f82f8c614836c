package price

import (
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// Override is a price an account pays instead of the catalogue's.
type Override struct {
	// Match is a model name as clients send it, or a pattern in which each * stands for any text.
	Match string
	// Provider limits the override to calls with that provider, given or detected; "" is any.
	Provider string
	// Rates replace all rates of the catalogue. Input and Output are both needed; cached kinds and reasoning
	// fall back to them.
	Rates Rates
	// From is the first instant of the price; the zero time is "since ever".
	From time.Time
}

// overrides are in order of precedence.
type overrides struct{ list []override }

type override struct {
	pattern  []string // the texts between the stars; one is an exact name
	provider string
	from     int64
	tariff   *tariff
}

// With returns a book in which overrides come before the catalogue: an exact name before a pattern, a longer
// pattern before a shorter, one for the provider before one for any, and of equals the latest in force.
// It shares everything with b and is cheap. Overrides of b itself are replaced.
func (b *Book) With(list []Override) *Book {
	out := *b
	out.overrides = nil
	compiled := &overrides{}
	for _, o := range list {
		compiled.list = append(compiled.list, b.newOverride(o))
	}
	if len(compiled.list) > 0 {
		slices.SortStableFunc(compiled.list, override.compare)
		out.overrides = compiled
	}
	return &out
}

func (b *Book) newOverride(o Override) override {
	match, seller := normalise(o.Match), normalise(o.Provider)
	if p := b.alias(seller); p != nil {
		seller = p.id
	}
	id := "override/" + seller + "/" + match
	if seller == "" {
		id = "override/" + match
	}
	if from := (catalogue.Date{Time: o.From.UTC()}); !from.IsZero() {
		id += "@" + from.String()
	}
	t := &tariff{id: id, rule: "override " + match, tiers: []tier{{rates: newRates(o.Rates)}}}
	return override{strings.Split(match, "*"), seller, unix(o.From), t}
}

// compare puts the override that wins first.
func (o override) compare(other override) int {
	return slices.Compare(other.weight(), o.weight())
}

// weight says how specific an override is, the most important aspect first.
func (o override) weight() []int64 {
	exact, named, length := int64(0), int64(0), int64(0)
	if len(o.pattern) == 1 {
		exact = 1
	}
	if o.provider != "" {
		named = 1
	}
	for _, text := range o.pattern {
		length += int64(len(text))
	}
	return []int64{exact, length, named, o.from}
}

// find returns the tariff of the override in force for a call, or nil.
func (o *overrides) find(r *resolved, at time.Time) *tariff {
	if o == nil {
		return nil
	}
	seconds := at.Unix()
	for i := range o.list {
		c := &o.list[i]
		if seconds >= c.from && (c.provider == "" || c.provider == r.provider) && c.matches(r.name) {
			return c.tariff
		}
	}
	return nil
}

// matches compares a name with the pattern: its ends are fixed, the texts between the stars come in order.
func (o *override) matches(name string) bool {
	first, rest := o.pattern[0], o.pattern[1:]
	if len(rest) == 0 {
		return name == first && name != ""
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for _, text := range rest[:len(rest)-1] {
		if _, name, ok = strings.Cut(name, text); !ok {
			return false
		}
	}
	return strings.HasSuffix(name, rest[len(rest)-1])
}
