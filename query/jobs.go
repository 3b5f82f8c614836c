package query

import (
	"encoding/json"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// jobReply is a job as those who asked for it look at it.
type jobReply struct {
	ID string `json:"id"`
	// Kind is such as report, reprice or erasure.
	Kind string `json:"kind"`
	// State is queued, running, done or failed. A try that did not succeed is queued again, with Error.
	State job.State `json:"state"`
	// Attempt counts tries from 1.
	Attempt int `json:"attempt"`
	// Done and Total are in the unit of the kind, such as events; Total is null while it is not known.
	Done  int64  `json:"done"`
	Total *int64 `json:"total"`
	// WaitingFor is what the running try waits for, null when it does not wait.
	WaitingFor *string `json:"waiting_for"`
	// Args and Result are the kind's own objects; Result is null before the end.
	Args   json.RawMessage `json:"args"`
	Error  *string         `json:"error"`
	Result json.RawMessage `json:"result"`
	// CreatedBy is null for a job of a schedule.
	CreatedBy  *string    `json:"created_by"`
	CreatedAt  usage.Time `json:"created_at"`
	StartedAt  usage.Time `json:"started_at"`
	FinishedAt usage.Time `json:"finished_at"`
}

func newJobReply(j *job.Job) jobReply {
	reply := jobReply{
		ID: j.ID.Text(job.Prefix), Kind: j.Kind, State: j.State, Attempt: j.Attempt, Done: j.Done, Total: j.Total, WaitingFor: j.WaitingFor,
		Args: j.Args, Error: j.Error, Result: j.Result,
		CreatedAt: usage.Time{Time: j.CreatedAt.UTC()}, StartedAt: timeOf(j.StartedAt), FinishedAt: timeOf(j.FinishedAt),
	}
	reply.CreatedBy = idText(j.CreatedBy, schema.UserPrefix)
	return reply
}

// jobs asks for the jobs of the caller's account, with one statement at a time.
func (s *Server) jobs(c *rest.Request) *job.Store { return job.NewStore(s.usage.Once(c.Who.AccountID)) }

// job answers one job: where it stands and what it found.
func (s *Server) job(c *rest.Request, id schema.ID) error {
	found, err := s.jobs(c).Get(c.Ctx(), c.Who.AccountID, id)
	if err != nil {
		return storeError(err, "job")
	}
	return c.Reply(newJobReply(&found))
}

// listJobs answers a page of the account's jobs, newest first.
func (s *Server) listJobs(c *rest.Request) error {
	p := c.Params("kind", "state", "limit", "cursor")
	limit := p.Limit()
	// An unknown kind finds nothing: kinds may come with later versions.
	filter := job.Filter{Kind: p.Text("kind"), Limit: limit + 1}
	if state := p.OneOf("state", "", string(job.Queued), string(job.Running), string(job.Done), string(job.Failed)); state != "" {
		filter.State = &state
	}
	after := rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	filter.Before = after.Before()
	jobs, err := s.jobs(c).Page(c.Ctx(), c.Who.AccountID, filter)
	if err != nil {
		return storeError(err, "job")
	}
	return rest.ReplyPage(c, p, limit, jobs, newJobReply, func(j *job.Job) rest.IDPosition { return rest.IDPosition{ID: j.ID} })
}
