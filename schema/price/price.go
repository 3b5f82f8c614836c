// Package price is the price book, and the only place where money is computed. Ingest asks it once for each
// event what the tokens cost at the time of the call; the answer travels with the event and nothing downstream
// computes it again. It promises exact integers, one rounding for each event, parts that add up to the total,
// and never a zero for a price it does not know. Budgets, storage and the wire are left to others.
package price

import (
	"errors"
	"iter"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

// MaxCostNanoUSD is the most one event may cost: USD 1,000,000.
const MaxCostNanoUSD int64 = 1_000_000_000_000_000

// ErrTooLarge is the answer to tokens that would cost more than MaxCostNanoUSD.
var ErrTooLarge = errors.New("cost is above 1000000 USD")

// Usage is what a model call consumed. Negative counts are read as 0.
type Usage struct {
	// Input is the total of the prompt, cached tokens included.
	Input int64
	// Output is the total of the answer, reasoning included.
	Output int64
	// CacheRead, CacheWrite and CacheWrite1h are separate parts of Input: read from a cache, written to one
	// for the provider's short time, written to one for an hour. Where they exceed Input they are still priced.
	CacheRead, CacheWrite, CacheWrite1h int64
	// Reasoning is a part of Output.
	Reasoning int64
	// Given says that the client sent a token count, even if it was 0. A positive count implies it.
	Given bool
}

// isGiven reports whether there is anything to price.
func (u Usage) isGiven() bool {
	return u.Given || u.Input > 0 || u.Output > 0 || u.CacheRead > 0 || u.CacheWrite > 0 || u.CacheWrite1h > 0 || u.Reasoning > 0
}

// Source says where a cost comes from. The fourth value of an event's cost source, "client", is not ours.
type Source string

const (
	// Calculated means that a price was applied; the cost may be a true 0.
	Calculated Source = "calculated"
	// NoUsage means that there were no tokens to price.
	NoUsage Source = "no_usage"
	// Unpriced means that no price is known. The cost is 0 and stands for "unknown", not for "free".
	Unpriced Source = "unpriced"
)

// Kind is a kind of token with a rate of its own.
type Kind uint8

// The kinds, in the order in which parts are listed. Input and Output are what the other kinds leave over.
const (
	Input Kind = iota
	CacheRead
	CacheWrite
	CacheWrite1h
	Output
	Reasoning
	// Kinds is how many there are.
	Kinds
)

var kindNames = [Kinds]string{"input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning"}

// String is the name of the kind in JSON.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Part is the share of one kind of token in a cost.
type Part struct {
	// Tokens is the count. A part with 0 tokens does not exist.
	Tokens int64
	// RatePicoUSD is the price of one token; Tokens times RatePicoUSD is the exact cost of the part.
	RatePicoUSD int64
	// CostNanoUSD is the part's share of the rounded total: its exact cost rounded down, and one more for the
	// parts with the largest remainders until all shares add up to the total. It is within 1 of the exact cost.
	CostNanoUSD int64
}

// Parts holds a part for each Kind.
type Parts [Kinds]Part

// All yields the parts that have tokens, in order.
func (p *Parts) All() iter.Seq2[Kind, Part] {
	return func(yield func(Kind, Part) bool) {
		for k, part := range p {
			if part.Tokens > 0 && !yield(Kind(k), part) {
				return
			}
		}
	}
}

// Quote is the price of one call.
type Quote struct {
	// CostNanoUSD is the exact sum rounded half to even, and the sum of the parts. 0 unless Source is Calculated.
	CostNanoUSD int64
	Source      Source
	// PriceID names the applied price, "openai/o3@2025-06-10", stable over catalogue versions; "" when none was.
	PriceID string
	// Provider is the client's in canonical form, or else the one detected from the model; "" when unknown.
	// It may differ from the provider in PriceID: Azure sells OpenAI's models at OpenAI's prices.
	Provider string
	// Model is the catalogue's name of the matched model; "" when there is none.
	Model string
	// Rule says how the model was matched, for people.
	Rule string
	// AboveTokens is the long-context step that set the rates, in tokens of input; 0 is the base price.
	AboveTokens int64
	Parts       Parts
}

// Rate is the price of one token in pico-USD, written as USD per million tokens.
type Rate = catalogue.Rate

// Rates are the prices of the kinds of token; nil where none is published.
type Rates = catalogue.Rates

// ParseRate reads a decimal of USD per million tokens, at most six decimals, exactly.
func ParseRate(s string) (Rate, error) { return catalogue.ParseRate(s) }
