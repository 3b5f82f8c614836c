package account

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outlayhq/outlay/schema"
)

// Scope is what an API key is for.
type Scope string

// The scopes.
const (
	// Track is to record events and to ask caps before spending.
	Track Scope = "track"
	// Read is to read what a viewer of the account reads.
	Read Scope = "read"
)

// MaxAgentPatterns bounds the patterns of a key.
const MaxAgentPatterns = 50

// Grant is what an API key may do.
type Grant struct {
	// Scopes defaults to Track alone.
	Scopes []Scope
	// Agents are patterns of the agents that the key may track: names in which * stands for any text, also none. Nil
	// allows all. Reading is always of the whole account.
	Agents []string
}

// Allows reports whether the key is for s.
func (g *Grant) Allows(s Scope) bool { return slices.Contains(g.Scopes, s) }

// AllowsAgent reports whether the key may track the agent.
func (g *Grant) AllowsAgent(name string) bool {
	if g.Agents == nil {
		return true
	}
	for _, pattern := range g.Agents {
		if matches(pattern, name) {
			return true
		}
	}
	return false
}

// Normalise fills in the defaults, and makes names of the patterns as tracking does of agents.
func (g *Grant) Normalise() {
	if g.Scopes == nil {
		g.Scopes = []Scope{Track}
	}
	slices.Sort(g.Scopes)
	slices.Reverse(g.Scopes)
	g.Scopes = slices.Compact(g.Scopes)
	for i, pattern := range g.Agents {
		g.Agents[i] = schema.NormalName(strings.TrimSpace(pattern))
	}
	slices.Sort(g.Agents)
	g.Agents = slices.Compact(g.Agents)
}

// Check notes all that is wrong with a grant that was normalised.
func (g *Grant) Check(faults *schema.Faults) {
	switch {
	case len(g.Scopes) == 0:
		faults.Add("scopes", `must have "track", "read" or both; leave it out for "track"`)
	case slices.ContainsFunc(g.Scopes, func(s Scope) bool { return s != Track && s != Read }):
		faults.Add("scopes", `must have "track", "read" or both`)
	case g.Agents != nil && !g.Allows(Track):
		faults.Add("agents", `is for keys with the scope "track": reading is of the whole account`)
	}
	switch {
	case g.Agents == nil:
	case len(g.Agents) == 0:
		faults.Add("agents", "must not be empty; leave it out for all agents")
	case len(g.Agents) > MaxAgentPatterns:
		faults.Add("agents", fmt.Sprintf("must have at most %d patterns", MaxAgentPatterns))
	}
	for _, pattern := range g.Agents[:min(len(g.Agents), MaxAgentPatterns)] {
		message := schema.NameFault(pattern, schema.MaxNameLength)
		if pattern == "" {
			message = "must not be empty"
		}
		if message != "" {
			faults.Add("agents", "each pattern "+message)
			return
		}
	}
}

// matches reports whether pattern, in which * stands for any text, is that of name.
func matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	// What is between two stars is looked for as far to the left as it goes, which leaves the most to the others.
	for {
		part, others, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], others
	}
}
