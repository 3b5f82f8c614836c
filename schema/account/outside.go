package account

import (
	"context"
	"errors"
	"time"

	"github.com/outlayhq/outlay/schema"
)

// MaxSubjectLength is how many characters an identity provider may take to name a
// user, the most that OpenID Connect allows.
const MaxSubjectLength = 255

// Outsider is a user as an outside identity provider describes one.
type Outsider struct {
	AccountID schema.ID
	// Issuer and Subject say who it is.
	Issuer, Subject string
	// Name is for people: an e-mail address, or anything else.
	Name string
	Role Role
}

const selectOutsider = selectUser + ` WHERE account_id = $1 AND issuer = $2 AND subject = $3`

// An account that is not there gets no user.
const upsertOutsider = `
INSERT INTO users (id, account_id, email, password_hash, role, created_at, issuer, subject)
SELECT $1, id, $3, '', $4, $5, $6, $7 FROM accounts WHERE id = $2
ON CONFLICT (account_id, issuer, subject) WHERE issuer IS NOT NULL DO UPDATE SET email = excluded.email, role = excluded.role
RETURNING ` + userColumns

// SeeOutsider returns the user that an outsider is in the account, and makes one of
// whoever comes for the first time. A name and a role that have changed are kept. It
// returns ErrNotFound when there is no such account.
func (s *Store) SeeOutsider(ctx context.Context, o Outsider) (User, error) {
	user, err := s.oneUser(ctx, selectOutsider, o.AccountID, o.Issuer, o.Subject)
	if err == nil && user.Email == o.Name && user.Role == o.Role {
		return user, nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return User{}, err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	return s.oneUser(ctx, upsertOutsider, schema.NewID(now), o.AccountID, o.Name, o.Role, now, o.Issuer, o.Subject)
}
