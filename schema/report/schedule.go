package report

import (
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// Frequency is how often a schedule makes a report.
type Frequency string

// The frequencies.
const (
	Weekly  Frequency = "weekly"
	Monthly Frequency = "monthly"
)

// Schedule has a report of each week or month made and sent by e-mail.
type Schedule struct {
	ID         schema.ID
	AccountID  schema.ID
	Title      string
	Frequency  Frequency
	Timezone   string
	Agents     []string
	GroupBy    GroupBy
	Recipients []string
	// NextAt is when the next report is made, of the period that ended before.
	NextAt    time.Time
	CreatedBy *schema.ID
	CreatedAt time.Time
}

// Limits of schedules.
const (
	MaxRecipients = 20
	MaxSchedules  = 50
)

// sendHour is the hour of the day after a period's end at which its report is made: by then events that were late by hours are
// in, and it is in the mailbox when work begins.
const sendHour = 6

// Normalise fills in the defaults.
func (s *Schedule) Normalise() {
	r := s.request(time.Time{}, time.Time{})
	r.Normalise()
	s.Title, s.Timezone, s.Agents, s.GroupBy = r.Title, r.Timezone, r.Agents, r.GroupBy
	for i, address := range s.Recipients {
		s.Recipients[i] = strings.TrimSpace(address)
	}
	slices.Sort(s.Recipients)
	s.Recipients = slices.Compact(s.Recipients)
}

func (s *Schedule) request(from, to time.Time) Request {
	return Request{Title: s.Title, From: from, To: to, Timezone: s.Timezone, Agents: s.Agents, GroupBy: s.GroupBy}
}

// Check notes all that is wrong with a schedule that was normalised.
func (s *Schedule) Check(faults *schema.Faults) {
	checkText(faults, s.Title, s.Timezone, s.GroupBy, s.Agents)
	if s.Frequency != Weekly && s.Frequency != Monthly {
		faults.Add("frequency", `must be "weekly" or "monthly"`)
	}
	if len(s.Recipients) == 0 || len(s.Recipients) > MaxRecipients {
		faults.Add("recipients", "must have 1 to 20 addresses")
		return
	}
	for i, address := range s.Recipients {
		if !plainAddress(address) {
			faults.Add("recipients."+strconv.Itoa(i), "must be an e-mail address such as finance@example.com")
		}
	}
}

// plainAddress reports whether text is an address and nothing else: no name, no comment, no line break.
func plainAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text && len(text) <= 254 && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// period is the calendar period that t lies in. Package budget knows the oddities of calendars.
func (s *Schedule) period(t time.Time) budget.Window {
	b := budget.Budget{Period: budget.Week, Timezone: s.Timezone}
	if s.Frequency == Monthly {
		b.Period = budget.Month
	}
	return b.Window(t)
}

// Next returns the first time after t at which a report is made.
func (s *Schedule) Next(t time.Time) (time.Time, error) {
	loc, err := LoadLocation(s.Timezone)
	if err != nil {
		return time.Time{}, fmt.Errorf("schedule %s: %w", s.ID.Text(SchedulePrefix), err)
	}
	start := s.period(t).Start
	for {
		year, month, day := start.Add(time.Hour).In(loc).Date()
		if at := time.Date(year, month, day, sendHour, 0, 0, 0, loc).UTC(); at.After(t) {
			return at, nil
		}
		start = s.period(start.Add(time.Hour)).End
	}
}

// Request returns the report that is due at NextAt: of the period before the one that NextAt lies in.
func (s *Schedule) Request() Request {
	now := s.period(s.NextAt)
	before := s.period(now.Start.Add(-time.Hour))
	return s.request(before.Start, before.End)
}
