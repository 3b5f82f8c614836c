package query

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// accountReply is an account as its members see it.
type accountReply struct {
	// ID starts with acc_.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Plan is the operator's to change, see outlay account plan.
	Plan account.Plan `json:"plan"`
	// Limits follow from the plan and this replica's settings; they are not stored.
	Limits limitsReply `json:"limits"`
	// Sharing says who may make links to sessions: off, members or admins.
	Sharing   account.Sharing `json:"sharing"`
	Retention retentionReply  `json:"retention"`
	CreatedAt usage.Time      `json:"created_at"`
}

// limitsReply holds what the plan allows in a minute of the clock.
type limitsReply struct {
	// EventsPerMinute is what ingest takes, over all its replicas; 0 when it is not known here.
	EventsPerMinute int64 `json:"events_per_minute"`
	// RequestsPerMinute is what one replica of the query tier answers.
	RequestsPerMinute int64 `json:"requests_per_minute"`
}

// ownAccount answers the caller's account.
func (s *Server) ownAccount(c *rest.Request) error {
	a, err := s.ownAccounts(c).Account(c.Ctx(), c.Who.AccountID)
	if err != nil {
		return storeError(err, "account")
	}
	return s.replyAccount(c, &a)
}

// replyAccount reads the retention apart: it is kept with the events' settings and not with the account.
func (s *Server) replyAccount(c *rest.Request, a *account.Account) error {
	retention, err := s.usage.Retention(c.Ctx(), a.ID)
	if err != nil {
		return storeError(err, "retention")
	}
	return c.Reply(accountReply{
		ID: a.ID.Text(schema.AccountPrefix), Name: a.Name, Plan: a.Plan, Limits: limitsReply{s.eventsPerMinute(a.Plan), s.limits.of(a.Plan)},
		Sharing: a.Sharing, Retention: newRetentionReply(&retention), CreatedAt: usage.Time{Time: a.CreatedAt},
	})
}

// changeAccountRequest holds what is to be changed; nil leaves a thing as it is.
type changeAccountRequest struct {
	Name    *string          `json:"name,omitempty"`
	Sharing *account.Sharing `json:"sharing,omitempty"`
	// Plan is known in order to say whose it is.
	Plan *string `json:"plan,omitempty"`
}

// err trims the name in place, so that the audit log shows it as it is stored.
func (r *changeAccountRequest) err() error {
	var faults schema.Faults
	if r.Name != nil {
		*r.Name = strings.TrimSpace(*r.Name)
		faults.CheckText("name", *r.Name, schema.MaxNameLength)
		if *r.Name == "" {
			faults.Add("name", "must not be empty")
		}
	}
	if r.Sharing != nil && !r.Sharing.Valid() {
		faults.Add("sharing", "must be one of off, members, admins")
	}
	// It is answered as a fault of this field and not as an unknown one, so that it is clear who can change it.
	if r.Plan != nil {
		faults.Add("plan", "is changed by the operator of this installation only, with outlay account plan")
	}
	return rest.Invalid(faults)
}

// changeAccount changes name and sharing of the owner's account.
func (s *Server) changeAccount(c *rest.Request, request *changeAccountRequest) error {
	var a account.Account
	err := s.administer(c, "account.change", request, func(ctx context.Context, _ pgx.Tx, store *account.Store) (target string, err error) {
		a, err = store.ChangeAccount(ctx, c.Who.AccountID, request.Name, request.Sharing)
		return c.Who.AccountID.Text(schema.AccountPrefix), err
	})
	if err != nil {
		return storeError(err, "account")
	}
	return s.replyAccount(c, &a)
}
