package account

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outlayhq/outlay/schema"
)

func TestGrantAllowsAgent(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]struct{ yes, no []string }{
		"bot":        {[]string{"bot"}, []string{"Bot", "bots", "abot", ""}},
		"support-*":  {[]string{"support-", "support-bot", "support-*"}, []string{"support", "Support-bot", "x-support-bot"}},
		"*":          {[]string{"", "anything"}, nil},
		"*-bot":      {[]string{"-bot", "a-bot", "a-bot-bot"}, []string{"bot", "a-bots"}},
		"a*a":        {[]string{"aa", "aba", "aaa"}, []string{"a", "ab"}},
		"a*b*a":      {[]string{"aba", "axbxa", "abba"}, []string{"aa", "ab", "aab"}},
		"a**b":       {[]string{"ab", "axb"}, []string{"a"}},
		"?[a-z].bot": {[]string{"?[a-z].bot"}, []string{"xb.bot"}},
	} {
		g := Grant{Agents: []string{"nobody", pattern}}
		for _, name := range names.yes {
			if !g.AllowsAgent(name) {
				t.Errorf("%s does not allow %q", pattern, name)
			}
		}
		for _, name := range names.no {
			if g.AllowsAgent(name) {
				t.Errorf("%s allows %q", pattern, name)
			}
		}
	}
	if g := (Grant{}); !g.AllowsAgent("bot") || g.Allows(Read) || g.Allows(Track) {
		t.Error("a grant without patterns is for all agents, and one without scopes for nothing")
	}
	if g := (Grant{Agents: []string{}}); g.AllowsAgent("bot") {
		t.Error("an empty list allows an agent")
	}
}

// A pattern matches what the regular expression of the same meaning does.
func TestPatternsMatchAsRegularExpressions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern"), rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		want := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$").MatchString(name)
		if got := matches(pattern, name); got != want {
			t.Fatalf("matches(%q, %q) = %v", pattern, name, got)
		}
	})
}

func TestGrantIsNormalisedAndChecked(t *testing.T) {
	t.Parallel()
	good := Grant{Agents: []string{" cafe\u0301* ", "b", "b"}, Scopes: []Scope{Read, Track, Read}}
	good.Normalise()
	if !slices.Equal(good.Agents, []string{"b", "caf\u00e9*"}) || !slices.Equal(good.Scopes, []Scope{Track, Read}) {
		t.Errorf("normalised to %+v", good)
	}
	many := make([]string, MaxAgentPatterns+1)
	for i := range many {
		many[i] = fmt.Sprintf("a%d", i)
	}
	for _, c := range []struct {
		grant Grant
		field string
	}{
		{good, ""},
		{Grant{}, ""},
		{Grant{Scopes: []Scope{Read}}, ""},
		{Grant{Scopes: []Scope{}}, "scopes"},
		{Grant{Scopes: []Scope{"write"}}, "scopes"},
		{Grant{Scopes: []Scope{Track, ""}}, "scopes"},
		{Grant{Scopes: []Scope{Read}, Agents: []string{"a"}}, "agents"},
		{Grant{Agents: []string{}}, "agents"},
		{Grant{Agents: []string{" "}}, "agents"},
		{Grant{Agents: []string{"a\u200b"}}, "agents"},
		{Grant{Agents: []string{strings.Repeat("a", 201)}}, "agents"},
		{Grant{Agents: many}, "agents"},
		{Grant{Agents: many[1:]}, ""},
	} {
		var faults schema.Faults
		c.grant.Normalise()
		c.grant.Check(&faults)
		if got := len(faults); c.field == "" && got != 0 || c.field != "" && (got != 1 || faults[0].Field != c.field) {
			t.Errorf("%+v: %v, want an error of %q", c.grant, faults, c.field)
		}
	}
}
