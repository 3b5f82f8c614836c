package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// The published shapes, as far as they are used.
type (
	publishedProvider struct {
		ID            string          `json:"id"`
		ModelMatch    json.RawMessage `json:"model_match"`
		ProviderMatch json.RawMessage `json:"provider_match"`
		Fallback      []string        `json:"fallback_model_providers"`
		Models        []publishedModel
	}
	publishedModel struct {
		ID     string          `json:"id"`
		Match  json.RawMessage `json:"match"`
		Prices json.RawMessage `json:"prices"`
	}
)

// normalise turns the published data into a catalogue.
func normalise(data []byte) (*catalogue.File, error) {
	var published []publishedProvider
	if err := json.Unmarshal(data, &published); err != nil {
		return nil, err
	}
	file := &catalogue.File{Version: catalogue.FormatVersion}
	for _, p := range published {
		provider, err := newProvider(p)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.ID, err)
		}
		file.Providers = append(file.Providers, provider)
	}
	return file, nil
}

func newProvider(p publishedProvider) (catalogue.Provider, error) {
	out := catalogue.Provider{ID: strings.ToLower(p.ID), Fallback: p.Fallback}
	var err error
	if out.Aliases, err = newRules(p.ProviderMatch); err != nil {
		return out, err
	}
	if out.Detect, err = newRules(p.ModelMatch); err != nil {
		return out, err
	}
	taken := map[string]bool{}
	for _, m := range p.Models {
		model, err := newModel(m)
		if err != nil {
			return out, fmt.Errorf("model %s: %w", m.ID, err)
		}
		// A name that an earlier model has would never have reached this one.
		model.Names = without(model.Names, taken)
		for _, name := range append(model.Names, model.ID) {
			taken[name] = true
		}
		out.Models = append(out.Models, model)
	}
	return out, nil
}

func newModel(m publishedModel) (catalogue.Model, error) {
	out := catalogue.Model{ID: strings.ToLower(m.ID)}
	rules, err := newRules(m.Match)
	if err != nil {
		return out, err
	}
	seen := map[string]bool{out.ID: true}
	for _, r := range rules {
		if r.Equals == "" {
			out.Rules = append(out.Rules, r)
		} else if !seen[r.Equals] {
			seen[r.Equals] = true
			out.Names = append(out.Names, r.Equals)
		}
	}
	out.Prices, err = newPrices(m.Prices)
	if len(out.Prices) == 0 && strings.HasSuffix(out.ID, ":free") {
		out.Prices = []catalogue.Price{free()}
	}
	return out, err
}

// free is a price that is known to be nothing, as opposed to no price.
func free() catalogue.Price {
	return catalogue.Price{Rates: catalogue.Rates{Input: new(catalogue.Rate), Output: new(catalogue.Rate)}}
}

func without(names []string, taken map[string]bool) []string {
	var out []string
	for _, name := range names {
		if !taken[name] {
			out = append(out, name)
		}
	}
	return out
}

// strict decodes JSON and refuses fields that are not known, so that news in the data are noticed.
func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// newRate turns a number of USD per million tokens into pico-USD a token. Floats in the data that are a hair off
// (0.18000000000000002) come out as they were meant.
func newRate(n json.Number) (*catalogue.Rate, error) {
	exact, ok := new(big.Rat).SetString(n.String())
	if !ok || exact.Sign() < 0 {
		return nil, fmt.Errorf("rate %s is not a price", n)
	}
	rate, err := catalogue.ParseRate(exact.FloatString(6))
	return &rate, err
}
