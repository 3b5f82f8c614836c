package rest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines that have no time zones of their own

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/problem"
)

// Params reads the query string and collects all that is wrong with it. A parameter
// that the endpoint does not know is refused, because a filter with a typo would answer
// another question, and so is an empty one: a script with an unset variable would get
// the whole account.
type Params struct {
	Values url.Values
	Faults schema.Faults
}

// Params parses the query string of an endpoint that knows these names.
func (c *Request) Params(known ...string) *Params {
	// What could be read is used even so, to list all faults at once.
	values, err := url.ParseQuery(c.Request.URL.RawQuery)
	p := &Params{Values: values}
	if err != nil {
		p.Faults.Add("query", "must be URL-encoded")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			p.Faults.Add(strings.ToValidUTF8(name[:min(len(name), 64)], "?"), "is not a parameter of this endpoint"+takes(known))
		// Of two values a reader could take either for the one that counts.
		case len(given) > 1 && name != "tag":
			p.Faults.Add(name, "must be given once")
		case slices.Contains(given, ""):
			p.Faults.Add(name, "must not be empty; leave it out, or give it a value")
		}
	}
	// The order of a map is random; answers are not.
	slices.SortFunc(p.Faults, func(a, b schema.Fault) int { return strings.Compare(a.Field, b.Field) })
	return p
}

// takes says which parameters there are.
func takes(known []string) string {
	if len(known) == 0 {
		return ", which takes none"
	}
	return ", which takes " + strings.Join(known, ", ")
}

// Err returns the problem that lists all faults, or nil.
func (p *Params) Err() error { return Invalid(p.Faults) }

// Invalid returns the problem that lists all faults of a request, or nil.
func Invalid(faults schema.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return problem.FromFaults(faults)
}

// Text returns a name or a part of one in normal form, as tracking stores names, or nil.
func (p *Params) Text(name string) *string {
	value := p.Values.Get(name)
	if value == "" {
		return nil
	}
	value = schema.NormalName(value)
	p.Faults.CheckName(name, value, schema.MaxNameLength)
	return &value
}

// OneOf returns one of the choices, or otherwise.
func (p *Params) OneOf(name, otherwise string, choices ...string) string {
	value := p.Values.Get(name)
	if value == "" {
		return otherwise
	}
	if !slices.Contains(choices, value) {
		p.Faults.Add(name, "must be one of "+strings.Join(choices, ", "))
	}
	return value
}

// Flag returns true or false.
func (p *Params) Flag(name string, otherwise bool) bool {
	return p.OneOf(name, strconv.FormatBool(otherwise), "true", "false") == "true"
}

// Tags returns the values of tag, which may be given several times, or nil.
func (p *Params) Tags() []string {
	var tags []string
	for _, tag := range p.Values["tag"] {
		tags = append(tags, schema.NormalName(tag))
	}
	p.Faults.CheckTags("tag", tags)
	return tags
}

// The number of items a page may have.
const (
	defaultLimit = 50
	MaxLimit     = 500
)

// Limit returns how many items the page may have: limit, from 1 to MaxLimit, 50 unless given.
func (p *Params) Limit() int {
	value := p.Values.Get("limit")
	if value == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxLimit {
		p.Faults.Add("limit", "must be an integer from 1 to 500")
		return defaultLimit
	}
	return n
}

// Zone returns the IANA time zone, UTC unless given.
func (p *Params) Zone() *time.Location {
	value := p.Values.Get("timezone")
	if value == "" {
		return time.UTC
	}
	// "Local" is the zone of this machine, which is nobody's business.
	loc, err := time.LoadLocation(value)
	if err != nil || value == "Local" {
		p.Faults.Add("timezone", "must be the name of an IANA time zone, such as Europe/Berlin")
		return time.UTC
	}
	return loc
}

// Time returns an RFC 3339 time, or the start of a date in loc, or otherwise.
func (p *Params) Time(name string, loc *time.Location, otherwise time.Time) time.Time {
	value := p.Values.Get(name)
	if value == "" {
		return otherwise
	}
	t, err := ParseTime(value, loc)
	if err != nil {
		p.Faults.Add(name, "must be a time as RFC 3339 writes it, such as 2026-01-31T00:00:00Z, or a date")
		return otherwise
	}
	if first, end := usage.AllTime(); t.Before(first) || t.After(end) {
		p.Faults.Add(name, "must be between the years 2000 and 2200")
		return otherwise
	}
	return t.Truncate(time.Microsecond)
}

// ParseTime reads an RFC 3339 time, or a date as its first instant in loc.
func ParseTime(value string, loc *time.Location) (time.Time, error) {
	// A plus sign that was not URL-encoded arrives as a space.
	value = strings.Replace(value, " ", "+", 1)
	if t, err := schema.ParseTime(value); err == nil {
		return t, nil
	}
	return time.ParseInLocation(time.DateOnly, value, loc)
}

// Span returns from and to. A to that is not given is end, a from that is not
// given is what before makes of to.
func (p *Params) Span(loc *time.Location, end time.Time, before func(to time.Time) time.Time) (from, to time.Time) {
	to = p.Time("to", loc, end)
	from = p.Time("from", loc, before(to))
	if !from.Before(to) {
		p.Faults.Add("from", "must be before to")
	}
	return from, to
}

// SinceEver is the before of a list that has no first time unless asked for.
func SinceEver(time.Time) time.Time {
	first, _ := usage.AllTime()
	return first
}

// DaysBefore is the before of an answer about the last n days.
func DaysBefore(n int) func(time.Time) time.Time {
	return func(to time.Time) time.Time { return to.AddDate(0, 0, -n) }
}

// Descending reads order, which is desc or asc.
func (p *Params) Descending(otherwise bool) bool {
	fallback := "asc"
	if otherwise {
		fallback = "desc"
	}
	return p.OneOf("order", fallback, "asc", "desc") == "desc"
}
