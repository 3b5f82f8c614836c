package report

import (
	"time"

	"github.com/outlayhq/outlay/schema/report"
)

// Statement is a report as figures, complete: drawing and writing it need nothing else, not even the time of day.
type Statement struct {
	report.Request
	// AccountID is in its text form.
	AccountID, AccountName string
	// ReportID is in its text form.
	ReportID string
	// GeneratedAt is when the report was asked for.
	GeneratedAt time.Time
	// Complete reports whether everything that was accepted before the report was begun is in the figures.
	Complete bool
	// CompleteUntil is the time up to which everything that was accepted is in the figures; zero when that is not known. A
	// document shows it only where Complete is false.
	CompleteUntil time.Time

	// Totals are of the period, Previous of the one before, which is as long.
	Totals, Previous Figures
	Days             []Day
	// ByAgent and ByModel are all lines, the dearest first.
	ByAgent, ByModel []Line
	Caps             []Cap
	// Unpriced are the models that events had no price for, most events first.
	Unpriced []Line
	Prices   []Price
	// PricesUnknown is how many of the events are kept no longer, or were too many to look at, so that Prices lacks them.
	PricesUnknown int64
}

// Figures are what a day, a line or the whole adds up to.
type Figures struct {
	// Unpriced events are in Events too, and add nothing to Cost.
	Events, Errors, Unpriced               int64
	InputTokens, OutputTokens, CacheTokens amount
	Cost                                   amount
	// Refused events are in no other figure.
	Refused     int64
	RefusedCost amount
}

// add adds g to f.
func (f *Figures) add(g *Figures) {
	f.Events += g.Events
	f.Errors += g.Errors
	f.Unpriced += g.Unpriced
	f.InputTokens.add(&g.InputTokens)
	f.OutputTokens.add(&g.OutputTokens)
	f.CacheTokens.add(&g.CacheTokens)
	f.Cost.add(&g.Cost)
	f.Refused += g.Refused
	f.RefusedCost.add(&g.RefusedCost)
}

// Day is one local day, or the part of it that lies in the period.
type Day struct {
	Start time.Time
	Figures
}

// Line is what one agent or one model did. Agent is empty in a line about a model.
type Line struct {
	Agent, Provider, Model string
	Figures
	// Before is the cost in the period before.
	Before amount
}

// Cap is a budget cap with what its agent, or the account for the empty name, did in the period.
type Cap struct {
	Agent, Period string
	Limit         amount
	Spent         amount
	Refused       int64
	RefusedCost   amount
	// Resets is how often its spend was started again from zero in the period.
	Resets int64
}

// Price is one price that was applied to events of the period.
type Price struct {
	// ID names the price; empty for events whose client gave the cost.
	ID     string
	Events int64
	Cost   amount
	Rates  []Rate
}

// Rate is what a million tokens of one kind cost, as recorded in the event.
type Rate struct {
	Kind string `json:"kind"`
	// USDPerMillion is the number as it stands in the event.
	USDPerMillion string `json:"rate_usd_per_mtok"`
	Tier          string `json:"tier"`
}

// incomplete states up to when the figures are complete.
func (s *Statement) incomplete(loc *time.Location) string {
	if s.CompleteUntil.IsZero() {
		return "Figures may be incomplete: it is not known up to when."
	}
	return "Figures are complete until " + stamp(s.CompleteUntil, loc) + " only."
}

// Location is the zone that days are counted in.
func (s *Statement) Location() *time.Location {
	// Zones come with the binary, so every replica draws the same days.
	loc, err := report.LoadLocation(s.Timezone)
	if err != nil {
		return time.UTC // It was known when the report was asked for.
	}
	return loc
}
