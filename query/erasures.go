package query

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/erasure"
	"github.com/outlayhq/outlay/schema/job"
)

// eraseSession has the content of a session erased, and answers the job that does it.
// The session's link ends at once.
func (s *Server) eraseSession(c *rest.Request) error {
	id, err := sessionParam(c)
	if err != nil {
		return err
	}
	// Nothing is erased of a session that is not there: the job would find out minutes later.
	if _, err := s.usage.Session(c.Ctx(), c.Who.AccountID, id, nil, 1); err != nil {
		return storeError(err, "session")
	}
	return s.askErasure(c, "session.erase", erasure.Args{SessionID: id}, func(ctx context.Context, tx pgx.Tx, jobID schema.ID) (string, error) {
		// The audit log names the session as it is called afterwards.
		return erasure.Alias(id, jobID), usage.EndShare(ctx, tx, c.Who.AccountID, id, s.now())
	})
}

// eraseUser has the content erased that events of a user have, and answers the job that
// does it. Nobody knows without looking at all events whether there are any.
func (s *Server) eraseUser(c *rest.Request) error {
	// Names are stored in normal form, and looked for in it.
	id := schema.NormalName(c.Param("user"))
	if schema.NameFault(id, schema.MaxNameLength) != "" {
		return storeError(usage.ErrNotFound, "user")
	}
	return s.askErasure(c, "end_user.erase", erasure.Args{UserID: id}, func(_ context.Context, _ pgx.Tx, jobID schema.ID) (string, error) {
		return jobID.Text(job.Prefix), nil
	})
}

// askErasure adds the job with its line in the audit log, which holds nothing of what is
// to be erased.
func (s *Server) askErasure(
	c *rest.Request, action string, args erasure.Args, also func(ctx context.Context, tx pgx.Tx, jobID schema.ID) (target string, err error),
) error {
	var asked job.Job
	err := s.administer(c, action, struct{}{}, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		// The job and the line of the audit log are committed together: none is without the other.
		jobs := job.NewStore(tx)
		id, err := jobs.Add(ctx, job.New{AccountID: c.Who.AccountID, Args: args, By: &c.Who.UserID, At: s.now().UTC().Truncate(time.Microsecond)})
		if err != nil {
			return "", err
		}
		if asked, err = jobs.Get(ctx, c.Who.AccountID, id); err != nil {
			return "", err
		}
		return also(ctx, tx, id)
	})
	if err != nil {
		return err
	}
	return c.ReplyStatus(http.StatusAccepted, newJobReply(&asked))
}
