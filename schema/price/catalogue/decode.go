package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const maxName = 200

// Decode reads a file and checks all of it, so that what it returns can be used without looking at it again.
func Decode(b []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	file := new(File)
	if err := dec.Decode(file); err != nil {
		return nil, fmt.Errorf("decode price catalogue: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode price catalogue: data after the end")
	}
	if err := file.Validate(); err != nil {
		return nil, fmt.Errorf("check price catalogue: %w", err)
	}
	return file, nil
}

// Validate checks every entry.
func (f *File) Validate() error {
	if f.Version != FormatVersion {
		return fmt.Errorf("format version is %d, want %d", f.Version, FormatVersion)
	}
	ids := map[string]bool{}
	for _, p := range f.Providers {
		if ids[p.ID] {
			return fmt.Errorf("provider %s is listed twice", p.ID)
		}
		ids[p.ID] = true
	}
	for _, p := range f.Providers {
		if err := p.validate(ids); err != nil {
			return fmt.Errorf("provider %s: %w", clip(p.ID), err)
		}
	}
	return nil
}

func (p Provider) validate(ids map[string]bool) error {
	if err := checkName(p.ID); err != nil {
		return err
	}
	for _, rules := range [][]Rule{p.Aliases, p.Detect} {
		if err := validateRules(rules); err != nil {
			return err
		}
	}
	for _, id := range p.Fallback {
		if !ids[id] || id == p.ID {
			return fmt.Errorf("fallback %s is not another provider of the file", clip(id))
		}
	}
	names := map[string]bool{}
	for _, m := range p.Models {
		for _, name := range append([]string{m.ID}, m.Names...) {
			if names[name] {
				return fmt.Errorf("model name %s is used twice", clip(name))
			}
			names[name] = true
		}
		if err := m.validate(); err != nil {
			return fmt.Errorf("model %s: %w", clip(m.ID), err)
		}
	}
	return nil
}

func (m Model) validate() error {
	for _, name := range append([]string{m.ID}, m.Names...) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if err := validateRules(m.Rules); err != nil {
		return err
	}
	for i, price := range m.Prices {
		if i > 0 && price.From.Before(m.Prices[i-1].From.Time) {
			return errors.New("prices are not in order of from")
		}
		newFrom := i == 0 || !price.From.Equal(m.Prices[i-1].From.Time)
		if newFrom != (price.Daily == nil) {
			return errors.New("each from needs one price without daily, listed first")
		}
		if err := price.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (p Price) validate() error {
	if w := p.Daily; w != nil && w.Start == w.End {
		return errors.New("daily window is empty")
	}
	above := int64(0)
	for _, step := range p.Above {
		if step.Tokens <= above {
			return errors.New("long-context steps are not in ascending order")
		}
		above = step.Tokens
	}
	return nil
}

func validateRules(rules []Rule) error {
	for _, r := range rules {
		if err := r.validate(1); err != nil {
			return err
		}
	}
	return nil
}

// checkName accepts what names of models and providers look like: visible ASCII in lower case.
func checkName(name string) error {
	if err := checkText(name, maxName); err != nil {
		return err
	}
	if name != strings.ToLower(name) || strings.Contains(name, " ") {
		return fmt.Errorf("name %q has an upper-case letter or a space", clip(name))
	}
	return nil
}

func checkText(s string, limit int) error {
	if s == "" || len(s) > limit {
		return fmt.Errorf("text of %d bytes, want 1 to %d", len(s), limit)
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("text %q holds more than visible ASCII", clip(s))
		}
	}
	return nil
}
