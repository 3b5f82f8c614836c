package query

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/report"
)

// reportReply is a report as those who asked for it see it.
type reportReply struct {
	ID string `json:"id"`
	// Status is queued, running, ready or failed.
	Status   report.Status `json:"status"`
	Title    string        `json:"title"`
	From     usage.Time    `json:"from"`
	To       usage.Time    `json:"to"`
	Timezone string        `json:"timezone"`
	// Agents is empty for all.
	Agents    []string       `json:"agents"`
	GroupBy   report.GroupBy `json:"group_by"`
	CreatedAt usage.Time     `json:"created_at"`
	ReadyAt   usage.Time     `json:"ready_at"`
	// SizeBytes is that of the PDF, null until it is ready.
	SizeBytes *int64 `json:"size_bytes"`
	// Complete and CompleteUntil are of the figures; both are null until the report is ready.
	Complete      *bool      `json:"complete"`
	CompleteUntil usage.Time `json:"complete_until"`
	// WaitingFor is what the job waits for before it reads the figures, for a minute at most.
	WaitingFor *string `json:"waiting_for"`
	// Error is why it failed, or why the last try did.
	Error *string `json:"error"`
	JobID string  `json:"job_id"`
	// ScheduleID is null for a report that a user asked for.
	ScheduleID *string `json:"schedule_id"`
	// Deliveries is empty for a report that is only downloaded.
	Deliveries []deliveryReply `json:"deliveries"`
}

// deliveryReply is a report on its way to an address.
type deliveryReply struct {
	To string `json:"to"`
	// State, Tries and Error are of the letter to this address; SentAt is null until it is sent.
	State  string     `json:"state"`
	Tries  int        `json:"tries"`
	Error  *string    `json:"error"`
	SentAt usage.Time `json:"sent_at"`
}

func newReportReply(r *report.Report, deliveries []report.Delivery) reportReply {
	reply := reportReply{
		ID: r.ID.Text(report.Prefix), Status: r.Status, Title: r.Title, From: usage.Time{Time: r.From}, To: usage.Time{Time: r.To},
		Timezone: r.Timezone, Agents: r.Agents, GroupBy: r.GroupBy, CreatedAt: usage.Time{Time: r.CreatedAt}, ReadyAt: timeOf(r.ReadyAt),
		Complete: r.Complete, CompleteUntil: timeOf(r.CompleteUntil), WaitingFor: r.WaitingFor, Error: r.Error, JobID: r.JobID.Text(job.Prefix), Deliveries: []deliveryReply{},
	}
	if r.Status == report.Ready {
		reply.SizeBytes = &r.SizeBytes
	}
	reply.ScheduleID = idText(r.ScheduleID, report.SchedulePrefix)
	for _, d := range deliveries {
		// The deliveries of a whole page come in one list.
		if d.ReportID == r.ID {
			reply.Deliveries = append(reply.Deliveries, deliveryReply{d.Address, d.State, d.Tries, d.Error, timeOf(d.SentAt)})
		}
	}
	return reply
}

// reportRequest is a report as a user asks for it.
type reportRequest struct {
	Title string `json:"title"`
	// From and To are RFC 3339 times, or dates, which are days of Timezone. Both are required.
	From string `json:"from"`
	To   string `json:"to"`
	// Agents is empty for all; GroupBy is agent or model.
	Agents   []string       `json:"agents"`
	GroupBy  report.GroupBy `json:"group_by"`
	Timezone string         `json:"timezone"`
}

// parse returns what is asked for. Dates are days of the report's zone.
func (q *reportRequest) parse() (report.Request, error) {
	var faults schema.Faults
	loc, err := report.LoadLocation(q.Timezone)
	if err != nil {
		// The zone is refused below; the times are read all the same, to name every fault at once.
		loc = time.UTC
	}
	r := report.Request{
		Title: q.Title, From: reportTime("from", q.From, loc, &faults), To: reportTime("to", q.To, loc, &faults),
		Timezone: q.Timezone, Agents: q.Agents, GroupBy: q.GroupBy,
	}
	r.Normalise()
	if len(faults) == 0 {
		r.Check(&faults)
	}
	return r, rest.Invalid(faults)
}

// reportTime reads a required time. Years are bounded as everywhere, so that no sum has more than 73 000 days.
func reportTime(field, text string, loc *time.Location, faults *schema.Faults) time.Time {
	if text == "" {
		faults.Add(field, "is required")
		return time.Time{}
	}
	t, err := rest.ParseTime(text, loc)
	if first, end := usage.AllTime(); err != nil || t.Before(first) || t.After(end) {
		faults.Add(field, "must be a time as RFC 3339 writes it, such as 2026-01-31T00:00:00Z, or a date, of the years 2000 to 2199")
		return time.Time{}
	}
	return t
}

// tooManyReports is how long a client should wait before it asks for another report.
const tooManyReports = 10 * time.Second

// generateReport asks for a report, which a job makes.
func (s *Server) generateReport(c *rest.Request, request *reportRequest) error {
	// The audit log shows the request as it was sent, the job gets it with its defaults.
	wanted, err := request.parse()
	if err != nil {
		return err
	}
	var asked report.Report
	err = s.administer(c, "report.generate", request, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		// The store counts the unfinished ones under a lock.
		asked, err = report.NewStore(tx).Ask(ctx, report.New{
			Request: wanted, AccountID: c.Who.AccountID, By: &c.Who.UserID, At: s.now().UTC().Truncate(time.Microsecond),
		})
		return asked.ID.Text(report.Prefix), err
	})
	if errors.Is(err, report.ErrTooMany) {
		return &problem.Problem{
			Code: problem.RateLimited, RetryAfter: tooManyReports,
			Detail: fmt.Sprintf("%d reports of this account are being made. Ask again when one is ready.", report.MaxUnfinished),
		}
	}
	if err != nil {
		return err
	}
	reply := newReportReply(&asked, nil)
	c.Header("Location", "/v1/reports/"+reply.ID)
	return c.ReplyStatus(http.StatusAccepted, reply)
}

// reports runs f on the reports of the caller's account.
func (s *Server) reports(c *rest.Request, f func(context.Context, *report.Store) error) error {
	return s.usage.Within(c.Ctx(), c.Who.AccountID, func(ctx context.Context, tx pgx.Tx) error {
		return f(ctx, report.NewStore(tx))
	})
}

// oneReport answers where a report stands and whom it was sent to.
func (s *Server) oneReport(c *rest.Request, id schema.ID) error {
	var reply reportReply
	err := s.reports(c, func(ctx context.Context, store *report.Store) error {
		r, err := store.Get(ctx, c.Who.AccountID, id)
		if err != nil {
			return err
		}
		deliveries, err := store.Deliveries(ctx, c.Who.AccountID, id)
		reply = newReportReply(&r, deliveries)
		return err
	})
	if err != nil {
		return storeError(err, "report")
	}
	return c.Reply(reply)
}

// listReports answers a page of reports, newest first.
func (s *Server) listReports(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit := p.Limit()
	after := rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	var reports []report.Report
	var deliveries []report.Delivery
	err := s.reports(c, func(ctx context.Context, store *report.Store) (err error) {
		if reports, err = store.Page(ctx, c.Who.AccountID, after.Before(), limit+1); err != nil {
			return err
		}
		// One more than the page has: its deliveries are read in vain once, which is simpler than cutting it off
		// here.
		ids := make([]schema.ID, len(reports))
		for i := range reports {
			ids[i] = reports[i].ID
		}
		deliveries, err = store.Deliveries(ctx, c.Who.AccountID, ids...)
		return err
	})
	if err != nil {
		return storeError(err, "report")
	}
	return rest.ReplyPage(c, p, limit, reports,
		func(r *report.Report) reportReply { return newReportReply(r, deliveries) },
		func(r *report.Report) rest.IDPosition { return rest.IDPosition{ID: r.ID} })
}

// downloadReport answers the document of a report that is ready.
func (s *Server) downloadReport(c *rest.Request, id schema.ID) error {
	p := c.Params("format")
	format := report.Format(p.OneOf("format", string(report.PDF), string(report.PDF), string(report.CSV)))
	if err := p.Err(); err != nil {
		return err
	}
	var r report.Report
	var file []byte
	err := s.reports(c, func(ctx context.Context, store *report.Store) (err error) {
		// The file may be some megabytes: it is read only when there is one.
		if r, err = store.Get(ctx, c.Who.AccountID, id); err != nil || r.Status != report.Ready {
			return err
		}
		file, err = store.File(ctx, c.Who.AccountID, id, format)
		return err
	})
	if err != nil {
		return storeError(err, "report")
	}
	switch r.Status {
	case report.Ready:
	// 409 and not 404: the report is there, and its state may change what a client does next.
	case report.Failed:
		return problem.New(problem.Conflict, "The report has failed; see its error, and ask for another one.")
	default:
		return problem.New(problem.Conflict, "The report is not ready. Ask again in a moment; its status says when it is.")
	}
	// The name is made of dates, and has no character that a header could not hold.
	c.Header("Content-Disposition", `attachment; filename="`+r.FileName(format)+`"`)
	c.Header("Cache-Control", "private, no-store")
	c.Data(http.StatusOK, format.ContentType(), file)
	return nil
}
