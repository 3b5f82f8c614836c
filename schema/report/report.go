// Package report is what the tiers agree on about reports: what is asked for, how far it is, which files came of it, who gets
// them by e-mail, and when a schedule is due. The query tier asks for reports and hands out the files; reading the figures,
// drawing and sending are the processor's.
package report

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// The prefixes of ids.
const (
	Prefix         schema.Prefix = "rpt"
	SchedulePrefix schema.Prefix = "sch"
)

// GroupBy is what a report puts first.
type GroupBy string

// The choices.
const (
	ByAgent GroupBy = "agent"
	ByModel GroupBy = "model"
)

// Format is the form of a file.
type Format string

// The formats.
const (
	PDF Format = "pdf"
	CSV Format = "csv"
)

// ContentType is the format's media type.
func (f Format) ContentType() string {
	if f == CSV {
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/pdf"
}

// Status is where a report stands.
type Status string

// The statuses.
const (
	Queued  Status = "queued"
	Running Status = "running"
	Ready   Status = "ready"
	Failed  Status = "failed"
)

// Request is what a report is to be about.
type Request struct {
	Title string
	// From is inclusive, To exclusive; both are whole quarter hours.
	From, To time.Time
	// Timezone is the IANA name of the zone that days are counted in.
	Timezone string
	// Agents are the only ones to look at; empty: all.
	Agents  []string
	GroupBy GroupBy
}

// Limits of a request.
const (
	DefaultTitle = "Spend report"
	MaxAgents    = 500
	// MaxDays bounds the period, and with it the daily chart.
	MaxDays = 366
	// MaxUnfinished is how many reports of an account may wait or be drawn at a time.
	MaxUnfinished = 5
)

// quarter is the finest time that sums are kept for.
const quarter = 15 * time.Minute

// Normalise fills in the defaults and widens the period to whole quarter hours.
func (r *Request) Normalise() {
	r.Title = strings.TrimSpace(r.Title)
	if r.Title == "" {
		r.Title = DefaultTitle
	}
	if r.Timezone == "" {
		r.Timezone = "UTC"
	}
	if r.GroupBy == "" {
		r.GroupBy = ByAgent
	}
	r.From = r.From.UTC().Truncate(quarter)
	if to := r.To.UTC().Truncate(quarter); to.Before(r.To) {
		r.To = to.Add(quarter)
	} else {
		r.To = to
	}
	for i, agent := range r.Agents {
		r.Agents[i] = schema.NormalName(strings.TrimSpace(agent))
	}
	slices.Sort(r.Agents)
	r.Agents = slices.Compact(r.Agents)
	if r.Agents == nil {
		r.Agents = []string{}
	}
}

// Check notes all that is wrong with a request that was normalised.
func (r *Request) Check(faults *schema.Faults) {
	checkText(faults, r.Title, r.Timezone, r.GroupBy, r.Agents)
	switch {
	case !r.From.Before(r.To):
		faults.Add("from", "must be before to")
	case r.To.Sub(r.From) > MaxDays*24*time.Hour+time.Hour:
		faults.Add("from", "must be at most 366 days before to")
	}
}

func checkText(faults *schema.Faults, title, timezone string, by GroupBy, agents []string) {
	faults.CheckText("title", title, schema.MaxNameLength)
	if _, err := LoadLocation(timezone); err != nil {
		faults.Add("timezone", "must be the name of an IANA time zone, such as Europe/Berlin")
	}
	if by != ByAgent && by != ByModel {
		faults.Add("group_by", `must be "agent" or "model"`)
	}
	if len(agents) > MaxAgents {
		faults.Add("agents", "must have at most 500 names")
		return
	}
	for i, agent := range agents {
		field := "agents." + strconv.Itoa(i)
		if agent == "" {
			faults.Add(field, "must not be empty")
		}
		faults.CheckName(field, agent, schema.MaxNameLength)
	}
}

// LoadLocation is time.LoadLocation without "Local", which means another zone on every machine.
func LoadLocation(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, errors.New("no such time zone")
	}
	return time.LoadLocation(name)
}

// Report is a report that was asked for.
type Report struct {
	Request
	ID         schema.ID
	AccountID  schema.ID
	JobID      schema.ID
	ScheduleID *schema.ID
	CreatedBy  *schema.ID
	CreatedAt  time.Time
	Status     Status
	// Error is why it failed, or why the last try did, for people.
	Error *string
	// SizeBytes is the size of the PDF; 0 until it is ready.
	SizeBytes int64
	ReadyAt   *time.Time
	// Complete reports whether everything that was accepted before the report was made is in its figures; nil until it is ready.
	Complete *bool
	// CompleteUntil is the time up to which everything that was accepted is in the figures; nil until the report is ready, and
	// when that was not known.
	CompleteUntil *time.Time
	// WaitingFor is what the job waits for, for people; nil when it does not wait.
	WaitingFor *string
}

var (
	// ErrNotFound is returned for a report or schedule that the account does not have.
	ErrNotFound = errors.New("there is no such report")
	// ErrNotReady is returned for a file that is not there yet.
	ErrNotReady = errors.New("the report is not ready")
	// ErrTooMany is returned to an account that has as many unfinished reports, or schedules, as it may.
	ErrTooMany = errors.New("too many")
)

// Args says which report the job makes.
type Args struct {
	ReportID string `json:"report_id"`
}

// Kind is the name of the job.
func (Args) Kind() string { return "report" }

// Period writes the period as dates of its zone: the first and the last day of it.
func (r *Request) Period() string {
	first, last := r.dates()
	if first == last {
		return first
	}
	return first + " to " + last
}

func (r *Request) dates() (first, last string) {
	loc, err := LoadLocation(r.Timezone)
	if err != nil {
		loc = time.UTC // It was known when the report was asked for.
	}
	return r.From.In(loc).Format(time.DateOnly), r.To.Add(-1).In(loc).Format(time.DateOnly)
}

// FileName is what a document of the report is called where it is saved. It is of letters, digits and hyphens only.
func (r *Request) FileName(f Format) string {
	first, last := r.dates()
	return "outlay-" + first + "-to-" + last + "." + string(f)
}
