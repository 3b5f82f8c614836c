// Package budget is what the tiers agree on about spending caps: what a cap is,
// when its periods start and end, and how caps are kept. Letting events through
// is ingest's, moving their cost from leased to spent the processor's.
package budget

import (
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// Period is how often a cap starts anew.
type Period string

// The periods. Weeks start on Monday; Total never starts anew.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
	Total Period = "total"
)

// OnUnpriced says what happens to an event of a capped agent whose price is not
// known.
type OnUnpriced string

// The choices. Allow records it at cost 0, Deny refuses it.
const (
	Allow OnUnpriced = "allow"
	Deny  OnUnpriced = "deny"
)

// Scope names what a cap is for: an agent of an account, or the whole account
// when Agent is empty. No agent has an empty name.
type Scope struct {
	AccountID schema.ID
	Agent     string
}

// Budget is a spending cap.
type Budget struct {
	Scope
	// Limit is reached when spend is equal to it or above. 0 lets nothing through.
	Limit  schema.NanoUSD
	Period Period
	// Timezone is an IANA name; periods start at its midnight.
	Timezone string
	// AlertAt are the shares of Limit, between 0 and 1, that are worth a notice.
	AlertAt    []float64
	OnUnpriced OnUnpriced
	// Epoch counts how often the spend was reset.
	Epoch     int32
	CreatedAt time.Time
	UpdatedAt time.Time
	// OverdrawnAt is when an ingest replica was last granted more than was left while
	// others held shares; zero if never.
	OverdrawnAt time.Time
}

// Bucket is how finely spend and leases are kept, by time of arrival. Every period
// of every time zone starts with a bucket.
const Bucket = 15 * time.Minute

// MaxLimit is the highest cap: USD 1 000 000 000.
const MaxLimit schema.NanoUSD = 1_000_000_000 * 1_000_000_000

// MaxThresholds is how many entries AlertAt may have.
const MaxThresholds = 10

// Check notes everything that is wrong with the budget, by the names of the API.
func (b *Budget) Check(faults *schema.Faults) {
	if b.Limit < 0 || b.Limit > MaxLimit {
		faults.Add("limit_usd", "must be an amount from 0 to 1000000000")
	}
	switch b.Period {
	case Day, Week, Month, Total:
	default:
		faults.Add("period", `must be "day", "week", "month" or "total"`)
	}
	if _, err := loadLocation(b.Timezone); err != nil {
		faults.Add("timezone", "must be an IANA time zone such as Europe/Berlin")
	}
	if len(b.AlertAt) > MaxThresholds {
		faults.Add("alert_at", fmt.Sprintf("must have at most %d entries", MaxThresholds))
	}
	for _, share := range b.AlertAt {
		if !(share > 0 && share <= 1) {
			faults.Add("alert_at", "must hold shares above 0 and up to 1")
			break
		}
	}
	if b.OnUnpriced != Allow && b.OnUnpriced != Deny {
		faults.Add("on_unpriced", `must be "allow" or "deny"`)
	}
}

// loadLocation refuses "Local", which means another zone on every machine.
func loadLocation(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	return time.LoadLocation(name)
}

// Window is one period: from Start up to, but not including, End.
type Window struct{ Start, End time.Time }

// Contains reports whether an event that arrived at t counts in w.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.Start) && t.Before(w.End) }

// The window of Total: all times that an event can have.
var (
	totalStart = time.Unix(0, 0).UTC()
	totalEnd   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Window returns the period in which an event that arrived at t counts. A time
// zone that this machine does not know counts as UTC.
func (b *Budget) Window(t time.Time) Window {
	if b.Period == Total {
		return Window{totalStart, totalEnd}
	}
	location, err := loadLocation(b.Timezone)
	if err != nil {
		location = time.UTC
	}
	year, month, day := t.In(location).Date()
	w := b.windowOf(year, month, day, location)
	if !t.Before(w.End) {
		// The clock was put back over midnight: this day has been over before.
		w = b.windowOf(year, month, day+1, location)
	}
	return w
}

// windowOf returns the period that a day of the calendar belongs to.
func (b *Budget) windowOf(year int, month time.Month, day int, location *time.Location) Window {
	noon := time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
	year, month, day = noon.Date()
	start := func(y int, m time.Month, d int) time.Time { return startOfDay(y, m, d, location) }
	switch b.Period {
	case Week:
		monday := day - (int(noon.Weekday())+6)%7
		return Window{start(year, month, monday), start(year, month, monday+7)}
	case Month:
		return Window{start(year, month, 1), start(year, month+1, 1)}
	}
	return Window{start(year, month, day), start(year, month, day+1)}
}

// startOfDay returns, in UTC, the first moment at which the clock of a place shows
// midnight of a day or later. Where a change of the clock skips midnight that is
// the moment of the change, where midnight comes twice the first one.
func startOfDay(y int, m time.Month, d int, location *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	// No place is ahead of UTC by more than this.
	for t := midnight.Add(-26 * time.Hour).In(location); ; {
		_, offset := t.Zone()
		_, changes := t.ZoneBounds()
		at := midnight.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) {
			at = t
		}
		if changes.IsZero() || at.Before(changes) {
			return at.UTC()
		}
		t = changes
	}
}
