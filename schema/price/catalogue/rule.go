package catalogue

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Rule is a test of a name. Exactly one field is set. Names are compared in lower case.
type Rule struct {
	Equals     string `json:"equals,omitempty"`
	StartsWith string `json:"starts_with,omitempty"`
	EndsWith   string `json:"ends_with,omitempty"`
	Contains   string `json:"contains,omitempty"`
	// Regex is in RE2 syntax and matches anywhere in the lower-case name.
	Regex string `json:"regex,omitempty"`
	And   []Rule `json:"and,omitempty"`
	Or    []Rule `json:"or,omitempty"`
	Not   *Rule  `json:"not,omitempty"`
}

const (
	maxRuleDepth   = 4
	maxRuleLiteral = 300
)

// String is the rule for people: "starts_with claude-3-haiku".
func (r Rule) String() string {
	if kind, literal := r.literal(); kind != "" {
		return kind + " " + literal
	}
	switch {
	case r.Not != nil:
		return "not " + r.Not.String()
	case len(r.And) > 0:
		return join(r.And, " and ")
	default:
		return join(r.Or, " or ")
	}
}

func join(rules []Rule, word string) string {
	parts := make([]string, len(rules))
	for i, r := range rules {
		parts[i] = r.String()
	}
	return strings.Join(parts, word)
}

// literal returns the kind and text of a rule that is not made of others.
func (r Rule) literal() (kind, text string) {
	switch {
	case r.Equals != "":
		return "equals", r.Equals
	case r.StartsWith != "":
		return "starts_with", r.StartsWith
	case r.EndsWith != "":
		return "ends_with", r.EndsWith
	case r.Contains != "":
		return "contains", r.Contains
	case r.Regex != "":
		return "regex", r.Regex
	}
	return "", ""
}

// validate checks the rule and what it is made of.
func (r Rule) validate(depth int) error {
	if depth > maxRuleDepth {
		return fmt.Errorf("rule is nested deeper than %d", maxRuleDepth)
	}
	if r.fieldsSet() != 1 {
		return errors.New("rule needs exactly one of equals, starts_with, ends_with, contains, regex, and, or, not")
	}
	if _, text := r.literal(); text != "" {
		if err := checkText(text, maxRuleLiteral); err != nil {
			return err
		}
	}
	if r.Regex != "" {
		if _, err := regexp.Compile(r.Regex); err != nil {
			return fmt.Errorf("compile rule: %w", err)
		}
	}
	parts := append(append([]Rule{}, r.And...), r.Or...)
	if r.Not != nil {
		parts = append(parts, *r.Not)
	}
	for _, part := range parts {
		if err := part.validate(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (r Rule) fieldsSet() int {
	n := 0
	for _, set := range []bool{
		r.Equals != "", r.StartsWith != "", r.EndsWith != "", r.Contains != "", r.Regex != "",
		len(r.And) > 0, len(r.Or) > 0, r.Not != nil,
	} {
		if set {
			n++
		}
	}
	return n
}
