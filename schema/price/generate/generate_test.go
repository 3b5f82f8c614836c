package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

var update = flag.Bool("update", false, "write the golden file anew")

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sample holds one of everything the published data has: history, steps, windows, rules, gaps, odd floats.
func TestBuildNormalises(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "catalogue.golden.json")
	file, err := build(read(t, "testdata", "published.json"), read(t, "testdata", "overrides.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := catalogue.Encode(file)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, golden)), string(got)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
}

// The same input gives the same bytes, whatever the order of maps.
func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	var first []byte
	for range 20 {
		file, err := build(read(t, "testdata", "published.json"), read(t, "testdata", "overrides.json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := catalogue.Encode(file)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if string(got) != string(first) {
			t.Fatal("two builds differ")
		}
	}
}

// What the data has not had before stops the generator, so that somebody looks at it.
func TestNormaliseRefusesNews(t *testing.T) {
	t.Parallel()
	model := func(match, prices string) string {
		return `[{"id":"p","models":[{"id":"m","match":` + match + `,"prices":` + prices + `}]}]`
	}
	tests := []struct{ name, data, want string }{
		{"unknown operator", model(`{"sounds_like":"m"}`, `{}`), "unknown field"},
		{"unknown price", model(`{"equals":"m"}`, `{"input_smell_mtok":1}`), "not known"},
		{"negative price", model(`{"equals":"m"}`, `{"input_mtok":-1}`), "not a price"},
		{"unknown constraint", model(`{"equals":"m"}`, `[{"prices":{}},{"constraint":{"type":"moon_phase"},"prices":{}}]`), "not known"},
		{"unknown field of a constraint", model(`{"equals":"m"}`, `[{"constraint":{"type":"start_date","start_date":"2026-01-01","weekday":1},"prices":{}}]`), "unknown field"},
		{"time in another zone", model(`{"equals":"m"}`, `[{"constraint":{"type":"time_of_date","start_time":"01:00:00+02:00","end_time":"02:00:00Z"},"prices":{}}]`), "UTC"},
		{"look-behind", model(`{"regex":"(?<!x)y"}`, `{}`), "rewrite"},
		{"positive look-ahead", model(`{"regex":"^(?=x)y"}`, `{}`), "rewrite"},
		{"look-ahead in the middle", model(`{"regex":"^a(?!x)"}`, `{}`), "rewrite"},
		{"look-ahead in a look-ahead", model(`{"regex":"^(?!a(?!b))"}`, `{}`), "rewrite"},
		{"look-ahead not closed", model(`{"regex":"^(?!a[)]"}`, `{}`), "rewrite"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := normalise([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("normalise error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

// An override without evidence is not taken.
func TestOverridesNeedEvidence(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"models":[{"provider":"p","id":"m","source":"","date":"2026-11-21"}]}`,
		`{"providers":[{"id":"p","source":"a page"}]}`,
		`{"free":[{"provider":"p","models":["m"],"source":"a page","date":"yesterday"}]}`,
		`{"models":[{"provider":"p","id":"m","prize":1,"source":"a page","date":"2026-11-21"}]}`,
	} {
		if _, err := readOverrides([]byte(data)); err == nil {
			t.Errorf("readOverrides(%s) passed", data)
		}
	}
}

// Overrides that no longer fit the data are noticed.
func TestOverridesMustApply(t *testing.T) {
	t.Parallel()
	const published = `[{"id":"p","models":[{"id":"m","match":{"equals":"m"},"prices":{"input_mtok":1,"output_mtok":1}}]}]`
	for _, byHand := range []string{
		`{"models":[{"provider":"q","id":"m","source":"a page","date":"2026-11-21"}]}`,
		`{"free":[{"provider":"q","models":["m"],"source":"a page","date":"2026-11-21"}]}`,
		`{"free":[{"provider":"p","models":["m"],"source":"a page","date":"2026-11-21"}]}`,
		`{"first":["q"]}`,
	} {
		if _, err := build([]byte(published), []byte(byHand)); err == nil {
			t.Errorf("build with %s passed", byHand)
		}
	}
}

// The catalogue in the binary was made with the overrides next to it.
func TestCatalogueHoldsTheOverrides(t *testing.T) {
	t.Parallel()
	file, err := catalogue.Decode(read(t, "..", "catalogue.json"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := readOverrides(read(t, "..", "overrides.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := &catalogue.File{}
	for _, m := range o.Models {
		want.Providers = append(want.Providers, catalogue.Provider{ID: m.Provider, Models: []catalogue.Model{m.Model}})
	}
	complete(want)
	models := map[string]catalogue.Model{}
	providers := map[string]catalogue.Provider{}
	for _, p := range file.Providers {
		providers[p.ID] = p
		for _, m := range p.Models {
			models[p.ID+"/"+m.ID] = m
		}
	}
	for _, p := range want.Providers {
		m := p.Models[0]
		have, ok := models[p.ID+"/"+m.ID]
		if !ok || !contains(have.Names, m.Names) || !contains(have.Rules, m.Rules) {
			t.Errorf("%s/%s lacks names or rules of its override: run make prices", p.ID, m.ID)
		}
		if diff := cmp.Diff(m.Prices, have.Prices); m.Prices != nil && diff != "" {
			t.Errorf("%s/%s has other prices than its override: run make prices\n%s", p.ID, m.ID, diff)
		}
	}
	for _, p := range o.Providers {
		have := providers[p.ID]
		if !contains(have.Aliases, p.Aliases) || !contains(have.Detect, p.Detect) || !contains(have.Fallback, p.Fallback) {
			t.Errorf("%s lacks aliases, detection or fallbacks of its override: run make prices", p.ID)
		}
	}
	if got := file.Providers[:len(o.First)]; !firstAre(got, o.First) {
		t.Errorf("providers start otherwise than %v: run make prices", o.First)
	}
}

func contains[T any](all, some []T) bool {
	for _, want := range some {
		found := false
		for _, have := range all {
			found = found || reflect.DeepEqual(have, want)
		}
		if !found {
			return false
		}
	}
	return true
}

func firstAre(providers []catalogue.Provider, ids []string) bool {
	for i, id := range ids {
		if providers[i].ID != id {
			return false
		}
	}
	return true
}

// The rewritten look-aheads match what they matched before.
func TestLookAheadIsRewritten(t *testing.T) {
	t.Parallel()
	rules, err := newRules(json.RawMessage(`{"regex":"^(?![^/]+/)(?:mi|code)stral"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []catalogue.Rule{{And: []catalogue.Rule{{Not: &catalogue.Rule{Regex: "^(?:[^/]+/)"}}, {Regex: "^(?:(?:mi|code)stral)"}}}}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}
