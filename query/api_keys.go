package query

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// keyReply is an API key without its secret.
type keyReply struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Hint is the last four characters of the key, by which people recognise it.
	Hint      string     `json:"hint"`
	CreatedAt usage.Time `json:"created_at"`
	// ExpiresAt is null for a key without an end, RevokedAt for one that is good, LastUsedAt for one that was never
	// used.
	ExpiresAt  usage.Time `json:"expires_at"`
	RevokedAt  usage.Time `json:"revoked_at"`
	LastUsedAt usage.Time `json:"last_used_at"`
	// Scopes are track, read or both.
	Scopes []account.Scope `json:"scopes"`
	// Agents is null for a key that may track all.
	Agents []string `json:"agents"`
}

func newKeyReply(k *account.Key) keyReply {
	return keyReply{
		ID: k.ID.Text(schema.KeyPrefix), Name: k.Name, Hint: k.Hint, CreatedAt: usage.Time{Time: k.CreatedAt},
		ExpiresAt: timeOf(k.ExpiresAt), RevokedAt: timeOf(k.RevokedAt), LastUsedAt: timeOf(k.LastUsedAt),
		Scopes: k.Scopes, Agents: k.Agents,
	}
}

// timeOf returns the zero Time, which JSON shows as null, for nil.
func timeOf(t *time.Time) usage.Time {
	if t == nil {
		return usage.Time{}
	}
	return usage.Time{Time: *t}
}

// newSecretReply is a key that was just made: the only answer that holds a secret.
type newSecretReply struct {
	keyReply
	// Key begins with outlay_live_. Only its hash is stored.
	Key string `json:"key"`
}

// listKeys answers a page of the account's API keys, newest first, ended ones included.
func (s *Server) listKeys(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	keys, err := s.ownAccounts(c).Keys(c.Ctx(), c.Who.AccountID, after.Page(limit))
	if err != nil {
		return storeError(err, "API key")
	}
	return rest.ReplyPage(c, p, limit, keys, newKeyReply, func(k *account.Key) rest.IDPosition { return rest.IDPosition{ID: k.ID} })
}

// createKeyRequest is a key as an admin asks for it, and what the audit log shows of it.
type createKeyRequest struct {
	Name string `json:"name"`
	// ExpiresAt is an RFC 3339 time ahead. Defaults to no end.
	ExpiresAt string `json:"expires_at,omitempty"`
	// Scopes defaults to track.
	Scopes []account.Scope `json:"scopes"`
	// Agents are patterns of the agents that the key may track. Defaults to all.
	Agents []string `json:"agents"`
}

// parse checks the request, fills in what the audit log shows of it as well, and
// returns the key that is asked for.
func (r *createKeyRequest) parse(now time.Time) (wanted account.NewKey, err error) {
	var faults schema.Faults
	var expires *time.Time
	r.Name = strings.TrimSpace(r.Name)
	faults.CheckText("name", r.Name, schema.MaxNameLength)
	if r.Name == "" {
		faults.Add("name", "is required")
	}
	if r.ExpiresAt != "" {
		t, err := schema.ParseTime(r.ExpiresAt)
		switch _, end := usage.AllTime(); {
		case err != nil:
			faults.Add("expires_at", "must be a time as RFC 3339 writes it, such as 2027-01-31T00:00:00Z")
		// A key that has ended already is a mistake of the client's clock or zone.
		case !t.After(now) || t.After(end):
			faults.Add("expires_at", "must lie ahead")
		}
		t = t.UTC().Truncate(time.Microsecond)
		expires = &t
	}
	grant := account.Grant{Scopes: r.Scopes, Agents: r.Agents}
	// Normalised before it is checked: equal patterns count once against their limit.
	grant.Normalise()
	grant.Check(&faults)
	if len(faults) > 0 {
		return account.NewKey{}, problem.FromFaults(faults)
	}
	r.Scopes, r.Agents = grant.Scopes, grant.Agents
	return account.NewKey{Name: r.Name, ExpiresAt: expires, Grant: grant}, nil
}

// createKey makes an API key and answers it with its secret, once.
func (s *Server) createKey(c *rest.Request, request *createKeyRequest) error {
	wanted, err := request.parse(s.now())
	if err != nil {
		return err
	}
	// The secret is made in the transaction and leaves the server only when it is committed.
	var reply newSecretReply
	err = s.administer(c, "api_key.create", request, func(ctx context.Context, _ pgx.Tx, store *account.Store) (string, error) {
		key, secret, err := store.CreateKey(ctx, c.Who.AccountID, wanted)
		reply = newSecretReply{newKeyReply(&key), secret}
		return reply.ID, err
	})
	if err != nil {
		return err
	}
	return c.ReplyStatus(http.StatusCreated, reply)
}

type rotateKeyRequest struct {
	// GraceSeconds is how long the old key goes on working.
	// Defaults to 0, which ends the old key at once, and is at most maxGrace.
	GraceSeconds int64 `json:"grace_seconds"`
}

// maxGrace is how long an old key may go on working beside the new one.
const maxGrace = 30 * 24 * time.Hour

// rotateKey makes a new API key in the place of an old one.
func (s *Server) rotateKey(c *rest.Request, id schema.ID) error {
	var request rotateKeyRequest
	if err := c.OptionalBody(&request); err != nil {
		return err
	}
	if request.GraceSeconds < 0 || request.GraceSeconds > int64(maxGrace/time.Second) {
		return problem.FromFaults(schema.Faults{{Field: "grace_seconds", Message: "must be an integer from 0 to 2592000"}})
	}
	var reply newSecretReply
	err := s.administer(c, "api_key.rotate", request, func(ctx context.Context, _ pgx.Tx, store *account.Store) (string, error) {
		key, secret, err := store.RotateKey(ctx, c.Who.AccountID, id, time.Duration(request.GraceSeconds)*time.Second)
		reply = newSecretReply{newKeyReply(&key), secret}
		return id.Text(schema.KeyPrefix), err
	})
	if err != nil {
		return storeError(err, "API key")
	}
	return c.ReplyStatus(http.StatusCreated, reply)
}

// revokeKey ends an API key.
func (s *Server) revokeKey(c *rest.Request, id schema.ID) error {
	return storeError(s.remove(c, "api_key.revoke", id.Text(schema.KeyPrefix), func(ctx context.Context, tx pgx.Tx) error {
		return account.NewStore(tx, s.now).RevokeKey(ctx, c.Who.AccountID, id)
	}), "API key")
}
