package price

import (
	"regexp"
	"strings"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// matcher is a rule ready to run on lower-case names.
type matcher struct {
	rule string
	// test returns how many characters of the name the rule accounts for, or noMatch. More is better.
	test func(name string) int
}

const noMatch = -1

func newMatcher(r catalogue.Rule) matcher { return matcher{r.String(), newTest(r)} }

// newTest compiles a rule of a checked catalogue.
func newTest(r catalogue.Rule) func(string) int {
	switch {
	case r.Equals != "":
		return literalTest(r.Equals, func(name, text string) bool { return name == text })
	case r.StartsWith != "":
		return literalTest(r.StartsWith, strings.HasPrefix)
	case r.EndsWith != "":
		return literalTest(r.EndsWith, strings.HasSuffix)
	case r.Contains != "":
		return literalTest(r.Contains, strings.Contains)
	case r.Regex != "":
		return regexTest(regexp.MustCompile(r.Regex))
	case r.Not != nil:
		return notTest(newTest(*r.Not))
	case len(r.And) > 0:
		return allTest(newTests(r.And))
	default:
		return anyTest(newTests(r.Or))
	}
}

func newTests(rules []catalogue.Rule) []func(string) int {
	tests := make([]func(string) int, len(rules))
	for i, r := range rules {
		tests[i] = newTest(r)
	}
	return tests
}

func literalTest(text string, matches func(name, text string) bool) func(string) int {
	text = lower(text)
	return func(name string) int {
		if matches(name, text) {
			return len(text)
		}
		return noMatch
	}
}

func regexTest(re *regexp.Regexp) func(string) int {
	return func(name string) int {
		if at := re.FindStringIndex(name); at != nil {
			return at[1] - at[0]
		}
		return noMatch
	}
}

func notTest(test func(string) int) func(string) int {
	return func(name string) int {
		if test(name) == noMatch {
			return 0
		}
		return noMatch
	}
}

func allTest(tests []func(string) int) func(string) int {
	return func(name string) int {
		best := 0
		for _, test := range tests {
			n := test(name)
			if n == noMatch {
				return noMatch
			}
			best = max(best, n)
		}
		return best
	}
}

func anyTest(tests []func(string) int) func(string) int {
	return func(name string) int {
		best := noMatch
		for _, test := range tests {
			best = max(best, test(name))
		}
		return best
	}
}

// find returns the provider's model for a name: by exact name, or else by the longest match of a rule.
func (p *provider) find(name string) (*model, string) {
	if m := p.exact[name]; m != nil {
		return m, "equals " + name
	}
	best, found := noMatch, -1
	for i, r := range p.rules {
		if n := r.test(name); n > best {
			best, found = n, i
		}
	}
	if found < 0 {
		return nil, ""
	}
	return p.rules[found].model, p.rules[found].rule
}
