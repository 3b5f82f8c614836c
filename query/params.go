package query

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

// params reads the query string and collects all that is wrong with it. A parameter
// that the endpoint does not know is refused, because a filter with a typo would answer
// another question, and so is an empty one: a script with an unset variable would get
// the whole account.
type params struct {
	values url.Values
	faults schema.Faults
}

// params parses the query string of an endpoint that knows these names.
func (c *request) params(known ...string) *params {
	values, err := url.ParseQuery(c.Request.URL.RawQuery)
	p := &params{values: values}
	if err != nil {
		p.faults.Add("query", "must be URL-encoded")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			p.faults.Add(strings.ToValidUTF8(name[:min(len(name), 64)], "?"), "is not a parameter of this endpoint"+takes(known))
		case len(given) > 1 && name != "tag":
			p.faults.Add(name, "must be given once")
		case slices.Contains(given, ""):
			p.faults.Add(name, "must not be empty; leave it out, or give it a value")
		}
	}
	// The order of a map is random; answers are not.
	slices.SortFunc(p.faults, func(a, b schema.Fault) int { return strings.Compare(a.Field, b.Field) })
	return p
}

// takes says which parameters there are.
func takes(known []string) string {
	if len(known) == 0 {
		return ", which takes none"
	}
	return ", which takes " + strings.Join(known, ", ")
}

// err returns the problem that lists all faults, or nil.
func (p *params) err() error { return invalid(p.faults) }

// invalid returns the problem that lists all faults of a request, or nil.
func invalid(faults schema.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return problem.FromFaults(faults)
}

// text returns a name or a part of one in normal form, as tracking stores names, or nil.
func (p *params) text(name string) *string {
	value := p.values.Get(name)
	if value == "" {
		return nil
	}
	value = schema.NormalName(value)
	p.faults.CheckName(name, value, schema.MaxNameLength)
	return &value
}

// session returns session_id in its canonical form, or nil. Both forms are taken.
func (p *params) session() *string {
	value := schema.NormalName(p.values.Get("session_id"))
	if value == "" {
		return nil
	}
	p.faults.CheckName("session_id", strings.TrimPrefix(value, "ses_"), schema.MaxNameLength)
	canonical := schema.SessionID(value)
	return &canonical
}

// oneOf returns one of the choices, or otherwise.
func (p *params) oneOf(name, otherwise string, choices ...string) string {
	value := p.values.Get(name)
	if value == "" {
		return otherwise
	}
	if !slices.Contains(choices, value) {
		p.faults.Add(name, "must be one of "+strings.Join(choices, ", "))
	}
	return value
}

// flag returns true or false.
func (p *params) flag(name string, otherwise bool) bool {
	return p.oneOf(name, strconv.FormatBool(otherwise), "true", "false") == "true"
}

// tags returns the values of tag, which may be given several times, or nil.
func (p *params) tags() []string {
	var tags []string
	for _, tag := range p.values["tag"] {
		tags = append(tags, schema.NormalName(tag))
	}
	p.faults.CheckTags("tag", tags)
	return tags
}

// The number of items a page may have.
const (
	defaultLimit = 50
	maxLimit     = 500
)

func (p *params) limit() int {
	value := p.values.Get("limit")
	if value == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxLimit {
		p.faults.Add("limit", "must be an integer from 1 to 500")
		return defaultLimit
	}
	return n
}

// minCost returns min_cost_usd in nano-dollars, or nil.
func (p *params) minCost() *int64 {
	value := p.values.Get("min_cost_usd")
	if value == "" {
		return nil
	}
	nano, err := schema.ParseUSD(value)
	if err != nil {
		p.faults.Add("min_cost_usd", err.Error())
	}
	n := int64(nano)
	return &n
}

// zone returns the IANA time zone, UTC unless given.
func (p *params) zone() *time.Location {
	value := p.values.Get("timezone")
	if value == "" {
		return time.UTC
	}
	// "Local" is the zone of this machine, which is nobody's business.
	loc, err := time.LoadLocation(value)
	if err != nil || value == "Local" {
		p.faults.Add("timezone", "must be the name of an IANA time zone, such as Europe/Berlin")
		return time.UTC
	}
	return loc
}

// time returns an RFC 3339 time, or the start of a date in loc, or otherwise.
func (p *params) time(name string, loc *time.Location, otherwise time.Time) time.Time {
	value := p.values.Get(name)
	if value == "" {
		return otherwise
	}
	t, err := parseTime(value, loc)
	if err != nil {
		p.faults.Add(name, "must be a time as RFC 3339 writes it, such as 2026-01-31T00:00:00Z, or a date")
		return otherwise
	}
	if first, end := usage.AllTime(); t.Before(first) || t.After(end) {
		p.faults.Add(name, "must be between the years 2000 and 2200")
		return otherwise
	}
	return t.Truncate(time.Microsecond)
}

func parseTime(value string, loc *time.Location) (time.Time, error) {
	// A plus sign that was not URL-encoded arrives as a space.
	value = strings.Replace(value, " ", "+", 1)
	if t, err := schema.ParseTime(value); err == nil {
		return t, nil
	}
	return time.ParseInLocation(time.DateOnly, value, loc)
}

// span returns from and to. A to that is not given is end, a from that is not
// given is what before makes of to.
func (p *params) span(loc *time.Location, end time.Time, before func(to time.Time) time.Time) (from, to time.Time) {
	to = p.time("to", loc, end)
	from = p.time("from", loc, before(to))
	if !from.Before(to) {
		p.faults.Add("from", "must be before to")
	}
	return from, to
}

// sinceEver is the before of a list that has no first time unless asked for.
func sinceEver(time.Time) time.Time {
	first, _ := usage.AllTime()
	return first
}

// daysBefore is the before of an answer about the last n days.
func daysBefore(n int) func(time.Time) time.Time {
	return func(to time.Time) time.Time { return to.AddDate(0, 0, -n) }
}
