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
	"github.com/outlayhq/outlay/schema/problem"
)

// maxRetentionDays is a hundred years.
const maxRetentionDays = 36500

// retentionReply is how long single events are kept. Whole days; null stands for ever.
type retentionReply struct {
	// RetentionDays is the account's own wish, null for that of the installation.
	RetentionDays *int `json:"retention_days"`
	// InstallationDays is what the operator set for all accounts. An account can only ask for less.
	InstallationDays *int `json:"installation_days"`
	// MinimumDays is how young events must stay because sums of them may still be computed again.
	MinimumDays int `json:"minimum_days"`
	// DeletedBefore is the time before which events may be gone, null while all are there.
	DeletedBefore usage.Time `json:"deleted_before"`
	// SumsKept is whether sums outlive their events, which they do not where they are views of them.
	SumsKept  bool       `json:"sums_kept"`
	UpdatedAt usage.Time `json:"updated_at"`
	// UpdatedBy is the user who set RetentionDays, null for the operator's.
	UpdatedBy *string `json:"updated_by"`
}

func newRetentionReply(r *usage.Retention) retentionReply {
	reply := retentionReply{r.Days, r.InstallationDays, r.MinimumDays, r.DeletedBefore, r.SumsKept, r.UpdatedAt, nil}
	reply.UpdatedBy = idText(r.UpdatedBy, schema.UserPrefix)
	return reply
}

// retention answers how long the account keeps single events.
func (s *Server) retention(c *rest.Request) error {
	r, err := s.usage.Retention(c.Ctx(), c.Who.AccountID)
	if err != nil {
		return storeError(err, "retention")
	}
	return c.Reply(newRetentionReply(&r))
}

// retentionRequest is a retention as an owner sets it.
type retentionRequest struct {
	// RetentionDays is required: leaving it out must not be taken for keeping events for ever.
	RetentionDays *int `json:"retention_days"`
}

// putRetention has the account's events deleted sooner than the installation does.
func (s *Server) putRetention(c *rest.Request, request *retentionRequest) error {
	days := request.RetentionDays
	switch {
	case days == nil:
		return problem.FromFaults(schema.Faults{{Field: "retention_days", Message: "is required"}})
	case *days < 1 || *days > maxRetentionDays:
		return problem.FromFaults(schema.Faults{{Field: "retention_days", Message: fmt.Sprintf("must be an integer from 1 to %d", maxRetentionDays)}})
	}
	// The database compares with the bounds, since the operator may change them at the same time.
	after, err := s.setRetention(c, "account.set_retention", request, days)
	if errors.Is(err, usage.ErrRetention) {
		return s.retentionFault(c)
	}
	if err != nil {
		return err
	}
	return c.Reply(newRetentionReply(&after))
}

// retentionFault says between which bounds a retention may be.
func (s *Server) retentionFault(c *rest.Request) error {
	r, err := s.usage.Retention(c.Ctx(), c.Who.AccountID)
	if err != nil {
		return storeError(err, "retention")
	}
	message := fmt.Sprintf("must be at least %d, as sums of younger events may still be computed again", r.MinimumDays)
	if r.InstallationDays != nil {
		message += fmt.Sprintf(", and at most %d, which is how long this installation keeps events", *r.InstallationDays)
	}
	return problem.FromFaults(schema.Faults{{Field: "retention_days", Message: message}})
}

// deleteRetention has the account's events kept as long as the installation keeps them.
func (s *Server) deleteRetention(c *rest.Request) error {
	if _, err := s.setRetention(c, "account.remove_retention", struct{}{}, nil); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

// setRetention sets the days, or removes them for nil, and reads what is in force then in the same transaction.
func (s *Server) setRetention(c *rest.Request, action string, detail any, days *int) (after usage.Retention, err error) {
	at := s.now().UTC().Truncate(time.Microsecond)
	err = s.administer(c, action, detail, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (target string, err error) {
		if err := usage.SetRetention(ctx, tx, c.Who.AccountID, days, at, c.Who.UserID); err != nil {
			return "", err
		}
		after, err = usage.ReadRetention(ctx, tx, c.Who.AccountID)
		return c.Who.AccountID.Text(schema.AccountPrefix), err
	})
	return after, err
}
