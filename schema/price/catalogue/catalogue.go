// Package catalogue is the file format of the price book: providers, their models, how model names are
// recognised, and what a token costs from when on. It reads, checks and writes the format and computes
// nothing; package price turns a File into a Book, and the generator makes a File from published data.
package catalogue

import "time"

// File is a whole price book as it is stored: embedded in the binary, or in a file an operator supplies.
type File struct {
	// Version is the format, always FormatVersion.
	Version int `json:"version"`
	// Source names the data the file was made from, for people.
	Source string `json:"source,omitempty"`
	// Providers are in order of preference: where two aliases or detection rules match equally well, the first wins.
	Providers []Provider `json:"providers"`
}

// FormatVersion is the only format this package reads.
const FormatVersion = 1

// Provider is somebody who sends the bill.
type Provider struct {
	// ID is the canonical name, lower case: "openai".
	ID string `json:"id"`
	// Aliases recognise other spellings of the provider's name, as clients send them.
	Aliases []Rule `json:"aliases,omitempty"`
	// Detect recognises the provider from a model name when the client names no provider.
	Detect []Rule `json:"detect,omitempty"`
	// Fallback lists providers whose price applies to a model this one sells without a price of its own.
	Fallback []string `json:"fallback,omitempty"`
	// Models are in order of preference: where two rules match equally well, the first wins.
	Models []Model `json:"models,omitempty"`
}

// Model is one price history and the names it applies to.
type Model struct {
	// ID is the canonical name and always one of the exact names.
	ID string `json:"id"`
	// Names are further exact names.
	Names []string `json:"names,omitempty"`
	// Rules recognise names that no model of the provider has exactly; the longest match wins.
	Rules []Rule `json:"rules,omitempty"`
	// Prices are in order of From. None means that the model is known and has no price per token.
	Prices []Price `json:"prices,omitempty"`
}

// Price is what a token costs from an instant on, until the next Price of the model with a later From.
type Price struct {
	// From is the first instant of the price; the zero time is "since ever".
	From Date `json:"from,omitzero"`
	// Daily limits the price to a part of each day. Every From has one price without Daily, listed first,
	// that applies outside the windows.
	Daily *Window `json:"daily,omitempty"`
	Rates
	// Above holds long-context steps in ascending order of Tokens.
	Above []Step `json:"above,omitempty"`
}

// Step is a full set of rates for every token of a call whose input exceeds Tokens.
type Step struct {
	Tokens int64 `json:"tokens"`
	Rates
}

// Window is a part of each day in UTC, from Start inclusive to End exclusive; End before Start passes midnight.
type Window struct {
	Start Clock `json:"start"`
	End   Clock `json:"end"`
	// Weekdays leaves out Saturday and Sunday, in UTC.
	Weekdays bool `json:"weekdays,omitempty"`
}

// Contains reports whether at falls into the window.
func (w Window) Contains(at time.Time) bool {
	at = at.UTC()
	if day := at.Weekday(); w.Weekdays && (day == time.Saturday || day == time.Sunday) {
		return false
	}
	minute := Clock(at.Hour()*60 + at.Minute())
	if w.End < w.Start {
		return minute >= w.Start || minute < w.End
	}
	return minute >= w.Start && minute < w.End
}
