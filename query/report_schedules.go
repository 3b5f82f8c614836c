package query

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/report"
)

// scheduleReply is a report that is made and sent again and again.
type scheduleReply struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Frequency is weekly or monthly. Reports are of the calendar week or month in Timezone that has just ended.
	Frequency report.Frequency `json:"frequency"`
	Timezone  string           `json:"timezone"`
	// Agents is empty for all.
	Agents  []string       `json:"agents"`
	GroupBy report.GroupBy `json:"group_by"`
	// Recipients are e-mail addresses.
	Recipients []string `json:"recipients"`
	// NextAt is when the next report begins to be made.
	NextAt    usage.Time `json:"next_at"`
	CreatedAt usage.Time `json:"created_at"`
}

func newScheduleReply(x *report.Schedule) scheduleReply {
	return scheduleReply{
		ID: x.ID.Text(report.SchedulePrefix), Title: x.Title, Frequency: x.Frequency, Timezone: x.Timezone, Agents: x.Agents,
		GroupBy: x.GroupBy, Recipients: x.Recipients, NextAt: usage.Time{Time: x.NextAt}, CreatedAt: usage.Time{Time: x.CreatedAt},
	}
}

// listSchedules answers a page of the account's schedules, newest first.
func (s *Server) listSchedules(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	var schedules []report.Schedule
	err := s.reports(c, func(ctx context.Context, store *report.Store) (err error) {
		schedules, err = store.Schedules(ctx, c.Who.AccountID)
		return err
	})
	if err != nil {
		return storeError(err, "schedule")
	}
	// An account has at most report.MaxSchedules: they are all read, and the page is cut here.
	schedules = slices.DeleteFunc(schedules, func(x report.Schedule) bool { return after.Passed(x.ID) })
	return rest.ReplyPage(c, p, limit, schedules, newScheduleReply, func(x *report.Schedule) rest.IDPosition { return rest.IDPosition{ID: x.ID} })
}

// scheduleRequest is a schedule as an admin asks for it. Defaults are those of a report.
type scheduleRequest struct {
	Title      string           `json:"title"`
	Frequency  report.Frequency `json:"frequency"`
	Timezone   string           `json:"timezone"`
	Agents     []string         `json:"agents"`
	GroupBy    report.GroupBy   `json:"group_by"`
	Recipients []string         `json:"recipients"`
}

// parse returns the schedule that is asked for, as it would be made now.
func (q *scheduleRequest) parse(c *rest.Request, now time.Time) (*report.Schedule, error) {
	x := &report.Schedule{
		ID: schema.NewID(now), AccountID: c.Who.AccountID, Title: q.Title, Frequency: q.Frequency, Timezone: q.Timezone,
		Agents: q.Agents, GroupBy: q.GroupBy, Recipients: q.Recipients, CreatedBy: &c.Who.UserID, CreatedAt: now,
	}
	x.Normalise()
	var faults schema.Faults
	if x.Check(&faults); len(faults) > 0 {
		return nil, problem.FromFaults(faults)
	}
	var err error
	// The first report is of the period that is running now, once it has ended.
	x.NextAt, err = x.Next(now)
	return x, err
}

// createSchedule has reports made and sent from now on.
func (s *Server) createSchedule(c *rest.Request, request *scheduleRequest) error {
	x, err := request.parse(c, s.now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return err
	}
	// Last of the checks, so that what the client can mend is named first.
	if !s.channels.mail {
		return problem.FromFaults(schema.Faults{{Field: "recipients", Message: needsMail}})
	}
	err = s.administer(c, "report_schedule.create", request, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		return x.ID.Text(report.SchedulePrefix), report.NewStore(tx).AddSchedule(ctx, x)
	})
	// The store counts under a lock, in the same transaction.
	if errors.Is(err, report.ErrTooMany) {
		return problem.New(problem.Conflict, fmt.Sprintf("An account may have %d schedules. Remove one first.", report.MaxSchedules))
	}
	if err != nil {
		return err
	}
	return c.ReplyStatus(http.StatusCreated, newScheduleReply(x))
}

// deleteSchedule ends a schedule. Its reports stay.
func (s *Server) deleteSchedule(c *rest.Request, id schema.ID) error {
	return storeError(s.remove(c, "report_schedule.remove", id.Text(report.SchedulePrefix), func(ctx context.Context, tx pgx.Tx) error {
		return report.NewStore(tx).DeleteSchedule(ctx, c.Who.AccountID, id)
	}), "schedule")
}
