package query

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/reprice"
)

// repriceRequest is which events are to get the prices of now.
type repriceRequest struct {
	// From and To are required: all events of ever would be repriced by mistake.
	From string `json:"from"`
	To   string `json:"to"`
	// Model is as it was tracked; nil is all.
	Model *string `json:"model"`
	// DryRun computes the differences and changes nothing.
	DryRun bool `json:"dry_run"`
}

// parse returns what is asked for.
func (q *repriceRequest) parse() (reprice.Request, error) {
	var faults schema.Faults
	r := reprice.Request{From: repriceTime("from", q.From, &faults), To: repriceTime("to", q.To, &faults), Model: q.Model, DryRun: q.DryRun}
	if r.Model != nil {
		model := schema.NormalName(*r.Model)
		r.Model = &model
	}
	// Comparing times that could not be read would only add faults.
	if len(faults) == 0 {
		r.Check(&faults)
	}
	return r, rest.Invalid(faults)
}

// repriceTime reads a bound, in microseconds as the database keeps times.
func repriceTime(field, text string, faults *schema.Faults) time.Time {
	return reportTime(field, text, time.UTC, faults).UTC().Truncate(time.Microsecond)
}

// reprice asks for events to be given the prices that are known now, which a job does.
func (s *Server) reprice(c *rest.Request, request *repriceRequest) error {
	wanted, err := request.parse()
	if err != nil {
		return err
	}
	var asked job.Job
	err = s.administer(c, "price.reprice", request, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		id, err := reprice.NewStore(tx).Ask(ctx, reprice.New{
			// The price book is pinned with the job: what is published while it runs does not split the result.
			Request: wanted, AccountID: c.Who.AccountID, Book: s.prices(), By: &c.Who.UserID, At: s.now().UTC().Truncate(time.Microsecond),
		})
		if err != nil {
			return "", err
		}
		asked, err = job.NewStore(tx).Get(ctx, c.Who.AccountID, id)
		return id.Text(job.Prefix), err
	})
	// Two jobs over the same events would each undo what the other one counts on.
	if running := new(reprice.RunningError); errors.As(err, &running) {
		id := running.JobID.Text(job.Prefix)
		// Location names the job, as for reports.
		c.Header("Location", "/v1/jobs/"+id)
		return problem.New(problem.Conflict, "Events of this account are being repriced by "+id+". Ask again when that job has ended.")
	}
	if err != nil {
		return err
	}
	reply := newJobReply(&asked)
	c.Header("Location", "/v1/jobs/"+reply.ID)
	return c.ReplyStatus(http.StatusAccepted, reply)
}
