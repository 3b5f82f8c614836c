package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// overrides are what the published data lacks or has wrong, kept by hand, each with where it comes from.
type overrides struct {
	// First are providers whose names are recognised before others': who sends the bill, not who made the model.
	First     []string           `json:"first"`
	Providers []providerOverride `json:"providers"`
	Models    []modelOverride    `json:"models"`
	Free      []freeOverride     `json:"free"`
}

// evidence says where an override comes from and when that was looked at.
type evidence struct {
	Source string `json:"source"`
	Date   string `json:"date"`
}

// providerOverride adds to a provider, or adds a provider.
type providerOverride struct {
	catalogue.Provider
	evidence
}

// modelOverride replaces the prices of a model, or adds a model. Names and rules are added to those it has.
type modelOverride struct {
	Provider string `json:"provider"`
	catalogue.Model
	evidence
}

// freeOverride marks models that are published as free of charge; the data has no price for them.
type freeOverride struct {
	Provider string   `json:"provider"`
	Models   []string `json:"models"`
	evidence
}

func readOverrides(data []byte) (overrides, error) {
	var o overrides
	if err := strict(data, &o); err != nil {
		return o, err
	}
	var all []evidence
	for _, p := range o.Providers {
		all = append(all, p.evidence)
	}
	for _, m := range o.Models {
		all = append(all, m.evidence)
	}
	for _, f := range o.Free {
		all = append(all, f.evidence)
	}
	for _, e := range all {
		if _, err := time.Parse(time.DateOnly, e.Date); err != nil || strings.TrimSpace(e.Source) == "" {
			return o, fmt.Errorf("entry with source %q, date %q: both are needed", e.Source, e.Date)
		}
	}
	return o, nil
}

// apply lays the overrides over a file.
func (o overrides) apply(file *catalogue.File) error {
	for _, p := range o.Providers {
		p.apply(file)
	}
	for _, m := range o.Models {
		if err := m.apply(file); err != nil {
			return fmt.Errorf("model %s/%s: %w", m.Provider, m.ID, err)
		}
	}
	for _, f := range o.Free {
		if err := f.apply(file); err != nil {
			return err
		}
	}
	for i := len(o.First) - 1; i >= 0; i-- {
		at := find(file, o.First[i])
		if at < 0 {
			return fmt.Errorf("first: no provider %s", o.First[i])
		}
		p := file.Providers[at]
		file.Providers = slices.Insert(slices.Delete(file.Providers, at, at+1), 0, p)
	}
	return nil
}

func find(file *catalogue.File, id string) int {
	return slices.IndexFunc(file.Providers, func(p catalogue.Provider) bool { return p.ID == id })
}

func (o providerOverride) apply(file *catalogue.File) {
	at := find(file, o.ID)
	if at < 0 {
		file.Providers = append(file.Providers, o.Provider)
		return
	}
	p := &file.Providers[at]
	p.Aliases = append(p.Aliases, o.Aliases...)
	p.Detect = append(p.Detect, o.Detect...)
	p.Fallback = append(p.Fallback, o.Fallback...)
}

func (o modelOverride) apply(file *catalogue.File) error {
	at := find(file, o.Provider)
	if at < 0 {
		return errors.New("no such provider")
	}
	p := &file.Providers[at]
	ours := map[string]bool{o.ID: true}
	for _, name := range o.Names {
		ours[name] = true
	}
	for i := range p.Models {
		p.Models[i].Names = without(p.Models[i].Names, ours)
	}
	have := slices.IndexFunc(p.Models, func(m catalogue.Model) bool { return m.ID == o.ID })
	if have < 0 {
		p.Models = slices.Insert(p.Models, 0, o.Model)
		return nil
	}
	m := &p.Models[have]
	m.Names = append(m.Names, o.Names...)
	m.Rules = append(m.Rules, o.Rules...)
	if o.Prices != nil {
		m.Prices = o.Prices
	}
	return nil
}

func (o freeOverride) apply(file *catalogue.File) error {
	at := find(file, o.Provider)
	if at < 0 {
		return fmt.Errorf("free: no provider %s", o.Provider)
	}
	for _, id := range o.Models {
		models := file.Providers[at].Models
		have := slices.IndexFunc(models, func(m catalogue.Model) bool { return m.ID == id })
		if have < 0 || len(models[have].Prices) > 0 {
			return fmt.Errorf("free: %s/%s is not there or has a price", o.Provider, id)
		}
		models[have].Prices = []catalogue.Price{free()}
	}
	return nil
}
