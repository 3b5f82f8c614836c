package main

import (
	"regexp"
	"strings"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// complete fills in what is published as a rule rather than as a figure for each model.
func complete(file *catalogue.File) {
	for _, p := range file.Providers {
		for _, m := range p.Models {
			for i := range m.Prices {
				for _, r := range allRates(&m.Prices[i]) {
					addHourCache(m, r)
					addNoOutput(m, r)
				}
			}
		}
	}
}

// allRates returns the rates of a price and of its long-context steps.
func allRates(p *catalogue.Price) []*catalogue.Rates {
	out := []*catalogue.Rates{&p.Rates}
	for i := range p.Above {
		out = append(out, &p.Above[i].Rates)
	}
	return out
}

// addHourCache sets what an hour in the cache costs for Anthropic's models, whoever sells them: Anthropic
// publishes it as twice the price of input, where five minutes are 1.25 times. The data has it for few of them.
func addHourCache(m catalogue.Model, r *catalogue.Rates) {
	if strings.Contains(m.ID, "claude") && r.CacheWrite1h == nil && r.CacheWrite != nil && r.Input != nil {
		twice := 2 * *r.Input
		r.CacheWrite1h = &twice
	}
}

// vectors are models that answer with vectors or scores.
var vectors = regexp.MustCompile(`embed|rerank|bge-|voyage-|distilbert|jev-`)

// addNoOutput sets the output of models that answer with vectors or scores to nothing, which is how they are
// sold. Any other model without a price for output is left without one, and is not priced when it has output.
func addNoOutput(m catalogue.Model, r *catalogue.Rates) {
	if r.Output == nil && r.Input != nil && vectors.MatchString(m.ID+" "+strings.Join(m.Names, " ")) {
		r.Output = new(catalogue.Rate)
	}
}
