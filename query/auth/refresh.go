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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// ErrBadRefresh is returned for a refresh token that is unknown, expired, used
// before or revoked, and for one of a disabled user.
var ErrBadRefresh = errors.New("refresh token is not valid")

// ErrReused is ErrBadRefresh where the token was used before: somebody else has
// it, or had it first. The sign-in has been ended.
var ErrReused = fmt.Errorf("%w: it was used before", ErrBadRefresh)

// refreshPrefix starts every refresh token, so that people and secret scanners
// know one.
const refreshPrefix = "outlay_refresh_"

const refreshSecretBytes = 32

// SignIns keeps people signed in: each sign-in is a chain of refresh tokens of
// which only the last one is good. It is safe for concurrent use.
type SignIns struct {
	pool     *pgxpool.Pool
	lifetime time.Duration
	now      func() time.Time
}

// NewSignIns returns SignIns that end when they are not refreshed for lifetime.
// pool is owned by the caller.
func NewSignIns(pool *pgxpool.Pool, lifetime time.Duration, now func() time.Time) *SignIns {
	return &SignIns{pool: pool, lifetime: lifetime, now: now}
}

// deleteExpired clears away a few tokens that nobody can use any more.
const deleteExpired = `
DELETE FROM refresh_tokens WHERE token_id = ANY (ARRAY(
	SELECT token_id FROM refresh_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED))`

// Start begins a sign-in of a user who showed the password from network, and returns
// it with its first refresh token.
func (s *SignIns) Start(ctx context.Context, user account.User, network string) (signIn schema.ID, token string, err error) {
	now := s.now().UTC()
	signIn = schema.NewID(now)
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deleteExpired, now); err != nil {
			return err
		}
		token, err = s.add(ctx, tx, refreshToken{AccountID: user.AccountID, UserID: user.ID, SignInID: signIn, Network: network})
		return err
	})
	if err != nil {
		return schema.ID{}, "", fmt.Errorf("start sign-in: %w", err)
	}
	return signIn, token, nil
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
		hash[:], now, now.Add(s.lifetime))
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
	Good    bool
	Used    bool
}

const selectRefreshToken = `
SELECT t.token_id, t.account_id, t.user_id, t.sign_in_id, t.network,
	t.revoked_at IS NULL AND t.expires_at > $2 AND u.disabled_at IS NULL AS good, t.used_at IS NOT NULL AS used
FROM refresh_tokens t JOIN users u ON u.id = t.user_id AND u.account_id = t.account_id
WHERE t.secret_sha256 = $1
FOR UPDATE OF t`

const useRefreshToken = `
UPDATE refresh_tokens SET used_at = $2 WHERE token_id = $1`

// Refresh exchanges a refresh token for the next one. It returns who is signed in,
// or ErrBadRefresh or ErrReused; the latter has ended the sign-in.
func (s *SignIns) Refresh(ctx context.Context, token string) (who Principal, next string, err error) {
	reused := false
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		row, err := s.find(ctx, tx, token)
		if err != nil {
			return err
		}
		if row.Used {
			// This has to be committed, so it is no error here.
			reused = true
			_, err := tx.Exec(ctx, endSignIn, row.SignInID, s.now().UTC())
			return err
		}
		if _, err := tx.Exec(ctx, useRefreshToken, row.TokenID, s.now().UTC()); err != nil {
			return err
		}
		who, err = s.principal(ctx, tx, row)
		if err != nil {
			return err
		}
		next, err = s.add(ctx, tx, row)
		return err
	})
	switch {
	case err == nil && reused:
		return Principal{}, "", ErrReused
	case err != nil:
		return Principal{}, "", fmt.Errorf("refresh sign-in: %w", err)
	}
	return who, next, nil
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

func (s *SignIns) principal(ctx context.Context, tx pgx.Tx, row refreshToken) (Principal, error) {
	user, err := account.NewStore(tx, s.now).User(ctx, row.AccountID, row.UserID)
	if err != nil {
		return Principal{}, err
	}
	return Principal{UserID: user.ID, AccountID: user.AccountID, Role: user.Role, SignIn: row.SignInID}, nil
}

// selectFamiliar takes a refresh that was not the user's own for nothing: a token keeps
// the network of its sign-in.
const selectFamiliar = `
SELECT EXISTS (
	SELECT FROM users u JOIN refresh_tokens t ON t.user_id = u.id
	WHERE lower(u.email) = lower($1) AND u.issuer IS NULL AND t.network = $2)`

// Familiar reports whether somebody has signed in to an e-mail address from network
// since about the lifetime of a sign-in ago.
func (s *SignIns) Familiar(ctx context.Context, email, network string) (bool, error) {
	if account.EmailFault(email) != "" {
		return false, nil
	}
	var familiar bool
	if err := s.pool.QueryRow(ctx, selectFamiliar, email, network).Scan(&familiar); err != nil {
		return false, fmt.Errorf("look for earlier sign-ins: %w", err)
	}
	return familiar, nil
}

const endSignIn = `
UPDATE refresh_tokens SET revoked_at = $2 WHERE sign_in_id = $1 AND revoked_at IS NULL`

const endSignInOfToken = `
UPDATE refresh_tokens SET revoked_at = $2
WHERE revoked_at IS NULL AND sign_in_id = (SELECT sign_in_id FROM refresh_tokens WHERE secret_sha256 = $1)`

// End ends the sign-in that a refresh token belongs to. A token that nobody knows
// is no error: it is of no use any more, which is what was wanted.
func (s *SignIns) End(ctx context.Context, token string) error {
	hash := sha256.Sum256([]byte(token))
	if _, err := s.pool.Exec(ctx, endSignInOfToken, hash[:], s.now().UTC()); err != nil {
		return fmt.Errorf("end sign-in: %w", err)
	}
	return nil
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
