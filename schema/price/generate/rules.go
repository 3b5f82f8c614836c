package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// newRules reads a published match, flattened where it is an "or". None is none.
func newRules(data json.RawMessage) ([]catalogue.Rule, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var r catalogue.Rule
	if err := strict(data, &r); err != nil {
		return nil, err
	}
	r, err := newRule(r)
	if err != nil {
		return nil, err
	}
	return flatten(r), nil
}

func flatten(r catalogue.Rule) []catalogue.Rule {
	if len(r.Or) == 0 {
		return []catalogue.Rule{r}
	}
	var out []catalogue.Rule
	for _, part := range r.Or {
		out = append(out, flatten(part)...)
	}
	return out
}

// newRule puts literals into lower case, in which names are compared, and rewrites what RE2 does not have.
func newRule(r catalogue.Rule) (catalogue.Rule, error) {
	for _, text := range []*string{&r.Equals, &r.StartsWith, &r.EndsWith, &r.Contains} {
		*text = strings.ToLower(*text)
	}
	for _, parts := range [][]catalogue.Rule{r.And, r.Or} {
		for i := range parts {
			var err error
			if parts[i], err = newRule(parts[i]); err != nil {
				return r, err
			}
		}
	}
	if _, err := regexp.Compile(r.Regex); err != nil {
		return withoutLookAhead(r.Regex)
	}
	return r, nil
}

// withoutLookAhead rewrites ^(?!X)Y as "not ^X, and ^Y". Nothing else that RE2 lacks is understood.
func withoutLookAhead(expression string) (catalogue.Rule, error) {
	refused, rest, err := cutLookAhead(expression)
	if err != nil {
		return catalogue.Rule{}, fmt.Errorf("rewrite %q: %w", expression, err)
	}
	out := catalogue.Rule{Not: &catalogue.Rule{Regex: "^(?:" + refused + ")"}}
	if rest != "" {
		out = catalogue.Rule{And: []catalogue.Rule{out, {Regex: "^(?:" + rest + ")"}}}
	}
	for _, text := range []string{refused, rest} {
		if _, err := regexp.Compile(text); err != nil {
			return out, fmt.Errorf("rewrite %q: %w", expression, err)
		}
	}
	return out, nil
}

// cutLookAhead splits ^(?!X)Y into X and Y by counting brackets.
func cutLookAhead(expression string) (refused, rest string, err error) {
	body, ok := strings.CutPrefix(expression, "^(?!")
	if !ok {
		return "", "", errors.New("not of the form ^(?!X)Y")
	}
	depth := 1
	class := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '(' && !class:
			depth++
		case c == ')' && !class:
			if depth--; depth == 0 {
				return body[:i], body[i+1:], nil
			}
		}
	}
	return "", "", errors.New("bracket is not closed")
}
