package query

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// auditPrefix begins the ids of acts.
const auditPrefix schema.Prefix = "aud"

// newAct returns the line of the audit log for an act of the caller. detail is
// shown there, so it holds no secret.
func (s *Server) newAct(c *rest.Request, action, target string, detail any) (*usage.Act, error) {
	return s.actOf(c, &c.Who.UserID, action, target, detail)
}

// actOf is newAct for an act of another user, or of nobody who is known for nil.
func (s *Server) actOf(c *rest.Request, userID *schema.ID, action, target string, detail any) (*usage.Act, error) {
	text, err := json.Marshal(detail)
	if err != nil {
		return nil, err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	return &usage.Act{
		AuditID: schema.NewID(now), At: usage.Time{Time: now}, UserID: userID, Action: action, Target: target,
		Detail: text, Address: c.ClientIP(), RequestID: rest.RequestID(c.Context),
	}, nil
}

// administer runs an administrative act together with its line in the audit log. f
// returns what the act was done to.
func (s *Server) administer(c *rest.Request, action string, detail any, f func(context.Context, pgx.Tx, *account.Store) (target string, err error)) error {
	// The target may be made by the act itself, so it is filled in within the transaction.
	act, err := s.newAct(c, action, "", detail)
	if err != nil {
		return err
	}
	return s.usage.Administer(c.Ctx(), c.Who.AccountID, act, func(ctx context.Context, tx pgx.Tx) (err error) {
		act.Target, err = f(ctx, tx, account.NewStore(tx, s.now))
		return err
	})
}

// remove is administer for an act that leaves nothing to show of target, and answers 204.
func (s *Server) remove(c *rest.Request, action, target string, f func(context.Context, pgx.Tx) error) error {
	err := s.administer(c, action, struct{}{}, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		return target, f(ctx, tx)
	})
	if err == nil {
		c.Status(http.StatusNoContent)
	}
	return err
}

// ownAccounts asks for what the caller's account may see of users and keys, with one
// statement at a time.
func (s *Server) ownAccounts(c *rest.Request) *account.Store {
	return account.NewStore(s.usage.Once(c.Who.AccountID), s.now)
}

// actReply is a line of the audit log.
type actReply struct {
	ID string     `json:"id"`
	At usage.Time `json:"at"`
	// UserID is null for acts of the operator at the command line, and for failed sign-ins.
	UserID *string `json:"user_id"`
	Email  *string `json:"email"`
	// Issuer is the identity provider of the user, null for a user with a password.
	Issuer *string `json:"issuer"`
	Action string  `json:"action"`
	// Target is the id or name of what it was done to.
	Target string `json:"target"`
	// Detail is what was asked for, without secrets.
	Detail  json.RawMessage `json:"detail"`
	Address *string         `json:"address"`
	// RequestID is X-Request-Id of the response, which the log of the server has too.
	RequestID *string `json:"request_id"`
}

func newActReply(a *usage.Act) actReply {
	reply := actReply{
		ID: a.AuditID.Text(auditPrefix), At: a.At, Email: nonEmpty(a.Email), Issuer: nonEmpty(a.Issuer), Action: a.Action, Target: a.Target,
		Detail: a.Detail, Address: nonEmpty(a.Address), RequestID: nonEmpty(a.RequestID),
	}
	reply.UserID = idText(a.UserID, schema.UserPrefix)
	return reply
}

// listActs answers a page of the audit log, newest first.
func (s *Server) listActs(c *rest.Request) error {
	p := c.Params("from", "to", "limit", "cursor")
	_, end := usage.AllTime()
	from, to := p.Span(time.UTC, end, rest.SinceEver)
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*rest.TimedPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	acts, err := s.usage.Acts(c.Ctx(), c.Who.AccountID, from, after.Place(to), limit+1)
	if err != nil {
		return storeError(err, "act")
	}
	return rest.ReplyPage(c, p, limit, acts, newActReply, func(a *usage.Act) rest.TimedPosition { return rest.NewTimedPosition(a.At.Time, a.AuditID) })
}
