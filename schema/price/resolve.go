package price

import "strings"

// resolved is what a provider and a model name, as a client sent them, stand for.
type resolved struct {
	rawProvider, rawModel string
	// provider is canonical, or the client's own word, or "".
	provider string
	// name is the normalised model name.
	name string
	// model is nil when no price history is known.
	model *model
	rule  string
}

// resolve finds the price history for a pair of names. It copies what it keeps: the arguments may be a part of
// a request's buffer.
func (b *Book) resolve(provider, model string) *resolved {
	r := &resolved{rawProvider: strings.Clone(provider), rawModel: strings.Clone(model)}
	r.provider, r.name = normalise(r.rawProvider), normalise(r.rawModel)
	readings := []string{}
	if r.name != "" && isASCII(r.name) {
		readings = b.readings(r.name)
	}
	seller := b.alias(r.provider)
	if seller != nil {
		r.provider = seller.id
	} else if seller = b.detect(readings); seller != nil && r.provider == "" {
		r.provider = seller.id
	}
	if seller != nil {
		r.model, r.rule = seller.search(readings)
	}
	return r
}

// search tries the readings in order, each with the provider first and then with those it falls back to.
func (p *provider) search(readings []string) (*model, string) {
	for i, name := range readings {
		m, rule := p.find(name)
		for _, other := range p.fallback {
			if m == nil {
				m, rule = other.find(name)
			}
		}
		if m != nil && i > 0 {
			rule += ", read as " + name
		}
		if m != nil {
			return m, rule
		}
	}
	return nil, ""
}

// alias returns the provider that a client means, nil when it is not in the book.
func (b *Book) alias(name string) *provider {
	if p := b.byAlias[name]; p != nil || name == "" || !isASCII(name) {
		return p
	}
	for _, p := range b.providers {
		for _, alias := range p.aliases {
			if alias.test(name) != noMatch {
				return p
			}
		}
	}
	return nil
}

// detect returns the provider that a model name points to: the one in front of it, or the one with the longest
// match of a rule.
func (b *Book) detect(readings []string) *provider {
	for _, name := range readings {
		if head := b.head(name, "/:"); head != "" {
			return b.byAlias[head]
		}
		var found *provider
		best := noMatch
		for _, p := range b.providers {
			for _, rule := range p.detect {
				if n := rule.test(name); n > best {
					best, found = n, p
				}
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}
