package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// ErrBadRefresh is returned for a refresh token that is unknown, expired, used
// before or revoked, and for one of a disabled user.
var ErrBadRefresh = errors.New("refresh token is not valid")

// refreshPrefix starts every refresh token, so that people and secret scanners
// know one.
const refreshPrefix = "outlay_refresh_"

const refreshSecretBytes = 32

// SignIns keeps people signed in: each sign-in is a chain of refresh tokens of
// which only the last one is good. It is safe for concurrent use.
type SignIns struct {
	lifetime time.Duration
	now      func() time.Time
}

// NewSignIns returns SignIns that end after lifetime, however often they are refreshed.
func NewSignIns(lifetime time.Duration, now func() time.Time) *SignIns {
	return &SignIns{lifetime: lifetime, now: now}
}

const selectAccount = `
SELECT account_of_refresh_token($1)`

// Account returns the account of a refresh token, or ErrBadRefresh. The token may not
// be good any more.
func (s *SignIns) Account(ctx context.Context, db pgdb.DB, token string) (schema.ID, error) {
	var id *schema.ID
	hash := sha256.Sum256([]byte(token))
	if err := db.QueryRow(ctx, selectAccount, hash[:]).Scan(&id); err != nil {
		return schema.ID{}, fmt.Errorf("find sign-in: %w", err)
	}
	if id == nil {
		return schema.ID{}, ErrBadRefresh
	}
	return *id, nil
}

// deleteExpired clears away a few tokens that nobody can use any more.
const deleteExpired = `
DELETE FROM refresh_tokens WHERE token_id = ANY (ARRAY(
	SELECT token_id FROM refresh_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED))`

// Start begins a sign-in of a user who showed the password from network, in a
// transaction of the user's account. It returns the sign-in with its first refresh
// token.
func (s *SignIns) Start(ctx context.Context, tx pgx.Tx, user account.User, network string) (signIn schema.ID, token string, err error) {
	now := s.now().UTC()
	if _, err := tx.Exec(ctx, deleteExpired, now); err != nil {
		return schema.ID{}, "", fmt.Errorf("start sign-in: %w", err)
	}
	row := refreshToken{
		AccountID: user.AccountID, UserID: user.ID, SignInID: schema.NewID(now), Network: network, ExpiresAt: now.Add(s.lifetime),
	}
	if token, err = s.add(ctx, tx, row); err != nil {
		return schema.ID{}, "", fmt.Errorf("start sign-in: %w", err)
	}
	return row.SignInID, token, nil
}

const insertRefreshToken = `
INSERT INTO refresh_tokens (token_id, account_id, user_id, sign_in_id, network, secret_sha256, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// add makes the next token of the sign-in that row belongs to.
func (s *SignIns) add(ctx context.Context, tx pgx.Tx, row refreshToken) (token string, err error) {
	var secret [refreshSecretBytes]byte
	// rand.Read never fails: since Go 1.24 it ends the program instead.
	_, _ = rand.Read(secret[:])
	token = refreshPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(token))
	now := s.now().UTC()
	_, err = tx.Exec(ctx, insertRefreshToken, schema.NewID(now), row.AccountID, row.UserID, row.SignInID, row.Network,
		hash[:], now, row.ExpiresAt)
	return token, err
}

// refreshToken is a row that is about to be exchanged.
type refreshToken struct {
	TokenID   schema.ID
	AccountID schema.ID
	UserID    schema.ID
	SignInID  schema.ID
	// Network is where the password was shown from.
	Network string
	// ExpiresAt is when the sign-in ends, of all its tokens the same.
	ExpiresAt time.Time
	Good      bool
	Used      bool
}

const selectRefreshToken = `
SELECT t.token_id, t.account_id, t.user_id, t.sign_in_id, t.network, t.expires_at,
	t.revoked_at IS NULL AND t.expires_at > $2 AND u.disabled_at IS NULL AS good, t.used_at IS NOT NULL AS used
FROM refresh_tokens t JOIN users u ON u.id = t.user_id AND u.account_id = t.account_id
WHERE t.secret_sha256 = $1
FOR UPDATE OF t`

const useRefreshToken = `
UPDATE refresh_tokens SET used_at = $2 WHERE token_id = $1`

// Refresh exchanges a refresh token for the next one, in a transaction of the account
// that Account returned. It returns who is signed in, or ErrBadRefresh; next is empty
// for a token that was used before, whose sign-in Refresh has ended.
func (s *SignIns) Refresh(ctx context.Context, tx pgx.Tx, token string) (who Principal, next string, err error) {
	row, err := s.find(ctx, tx, token)
	if err != nil {
		return Principal{}, "", err
	}
	who = Principal{UserID: row.UserID, AccountID: row.AccountID, SignIn: row.SignInID}
	if row.Used {
		// This has to be committed, so it is no error here.
		_, err := tx.Exec(ctx, endSignIn, row.SignInID, s.now().UTC())
		return who, "", err
	}
	if _, err := tx.Exec(ctx, useRefreshToken, row.TokenID, s.now().UTC()); err != nil {
		return Principal{}, "", err
	}
	user, err := account.NewStore(tx, s.now).User(ctx, row.AccountID, row.UserID)
	if err != nil {
		return Principal{}, "", err
	}
	who.Role = user.Role
	next, err = s.add(ctx, tx, row)
	return who, next, err
}

// find locks the row of a token that is good or was used before.
func (s *SignIns) find(ctx context.Context, tx pgx.Tx, token string) (refreshToken, error) {
	hash := sha256.Sum256([]byte(token))
	rows, _ := tx.Query(ctx, selectRefreshToken, hash[:], s.now().UTC())
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[refreshToken])
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !row.Good {
		return refreshToken{}, ErrBadRefresh
	}
	return row, err
}

const selectFamiliar = `
SELECT signed_in_from($1, $2)`

// Familiar returns a FamiliarFunc. A sign-in is remembered for its lifetime or longer;
// refreshing it somewhere else, with a stolen token, makes no network familiar.
func (s *SignIns) Familiar(db pgdb.DB) FamiliarFunc {
	return func(ctx context.Context, email, network string) (familiar bool, err error) {
		if account.EmailFault(email) != "" {
			return false, nil
		}
		if err := db.QueryRow(ctx, selectFamiliar, email, network).Scan(&familiar); err != nil {
			return false, fmt.Errorf("look for earlier sign-ins: %w", err)
		}
		return familiar, nil
	}
}

const endSignIn = `
UPDATE refresh_tokens SET revoked_at = $2 WHERE sign_in_id = $1 AND revoked_at IS NULL`

const endSignInOfToken = `
UPDATE refresh_tokens SET revoked_at = $2
WHERE revoked_at IS NULL AND sign_in_id = (SELECT sign_in_id FROM refresh_tokens WHERE secret_sha256 = $1)
RETURNING user_id`

// End ends the sign-in that a refresh token belongs to, in a transaction of its
// account, and returns whose it was. It returns ErrBadRefresh for one that had ended.
func (s *SignIns) End(ctx context.Context, tx pgx.Tx, token string) (userID schema.ID, err error) {
	hash := sha256.Sum256([]byte(token))
	rows, _ := tx.Query(ctx, endSignInOfToken, hash[:], s.now().UTC())
	users, err := pgx.CollectRows(rows, pgx.RowTo[schema.ID])
	if err != nil {
		return schema.ID{}, fmt.Errorf("end sign-in: %w", err)
	}
	if len(users) == 0 {
		return schema.ID{}, ErrBadRefresh
	}
	return users[0], nil
}

const endSignInsOfUser = `
UPDATE refresh_tokens SET revoked_at = $3 WHERE account_id = $1 AND user_id = $2 AND revoked_at IS NULL`

// EndAll ends every sign-in of a user, inside the caller's transaction.
func (s *SignIns) EndAll(ctx context.Context, tx pgx.Tx, accountID, userID schema.ID) error {
	if _, err := tx.Exec(ctx, endSignInsOfUser, accountID, userID, s.now().UTC()); err != nil {
		return fmt.Errorf("end sign-ins: %w", err)
	}
	return nil
}
