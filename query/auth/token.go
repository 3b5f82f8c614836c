// Package auth decides who is asking: it signs people in, makes and checks their
// tokens and knows what a role may do. It promises that only a token of this
// installation's own keys, or of an identity provider that its operator named, for
// this audience and in its time, is ever accepted, and that a wrong password and an
// unknown address look alike. What an account's
// data is and who may see which row is left to the store's statements.
package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// algorithm is the only one that is accepted.
const algorithm = "EdDSA"

// audience is the aud claim of every token.
const audience = "outlay"

// tokenType is the typ header of every token.
const tokenType = "JWT"

// leeway is how far the clocks of two replicas may be apart.
const leeway = 30 * time.Second

// maxTokenBytes bounds what is parsed at all; our own tokens have 600 or so, those of
// providers that list groups some thousands.
const maxTokenBytes = 16 << 10

// ErrBadToken is returned for every token that is not accepted. Why is wrapped
// for the log; a client does not get it.
var ErrBadToken = errors.New("token is not valid")

// Principal is who a token speaks for.
type Principal struct {
	UserID    schema.ID
	AccountID schema.ID
	Role      account.Role
	// SignIn names the sign-in that the token came from. Zero when the token
	// cannot be refreshed.
	SignIn schema.ID
	// ExpiresAt is the end of the token.
	ExpiresAt time.Time
	// Outsider is what an outside identity provider said of the user; nil for a token
	// of our own.
	Outsider *account.Outsider
	// Plan is the account's, Email and CreatedAt are the user's. No token says them, but SessionState.Check.
	Plan      account.Plan
	Email     string
	CreatedAt time.Time
}

// Tokens makes and checks access tokens. It is safe for concurrent use.
type Tokens struct {
	keys *Keys
	// issuer is the iss claim, the same on every replica; lifetime is the time from iat to exp.
	issuer   string
	lifetime time.Duration
	now      func() time.Time
	parser   *jwt.Parser
}

// NewTokens returns Tokens that sign with keys. issuer is the iss claim, lifetime
// the time from nbf to exp.
func NewTokens(keys *Keys, issuer string, lifetime time.Duration, now func() time.Time) *Tokens {
	return &Tokens{
		keys: keys, issuer: issuer, lifetime: lifetime, now: now,
		parser: newParser([]string{algorithm}, issuer, audience, now, jwt.WithNotBeforeRequired()),
	}
}

// newParser returns a parser of the tokens of one issuer for one audience. Tokens need an end; iat, where it is given,
// must not lie ahead.
func newParser(algorithms []string, issuer, audience string, now func() time.Time, more ...jwt.ParserOption) *jwt.Parser {
	return jwt.NewParser(append(more,
		jwt.WithValidMethods(algorithms), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithStrictDecoding())...)
}

// claims is the payload of a token.
type claims struct {
	// Account starts with acc_, SignIn with sid_; SignIn is empty for a token that cannot be refreshed.
	Account string       `json:"acc"`
	Role    account.Role `json:"role"`
	SignIn  string       `json:"sid,omitempty"`
	jwt.RegisteredClaims
}

// Issue returns a token for who, and how long it lasts. ExpiresAt of who is not
// read.
func (t *Tokens) Issue(who Principal) (token string, lifetime time.Duration, err error) {
	now := t.now()
	c := claims{
		Account: who.AccountID.Text(schema.AccountPrefix),
		Role:    who.Role,
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    t.issuer,
			Audience:  jwt.ClaimStrings{audience},
			Subject:   who.UserID.Text(schema.UserPrefix),
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(t.lifetime)),
			ID:        schema.NewID(now).Text(tokenPrefix),
		},
	}
	if !who.SignIn.IsZero() {
		c.SignIn = who.SignIn.Text(signInPrefix)
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	unsigned.Header["kid"] = t.keys.signingID
	token, err = unsigned.SignedString(t.keys.privates[0])
	if err != nil {
		return "", 0, fmt.Errorf("sign token: %w", err)
	}
	return token, t.lifetime, nil
}

// Prefixes of ids that appear in tokens only.
const (
	tokenPrefix  schema.Prefix = "jti"
	signInPrefix schema.Prefix = "sid"
)

// Verify returns who a token speaks for, or an error that is ErrBadToken.
func (t *Tokens) Verify(token string) (Principal, error) {
	good, err := t.verify(token)
	return good.who, err
}

func (t *Tokens) verify(token string) (verifiedToken, error) {
	if len(token) > maxTokenBytes {
		return verifiedToken{}, fmt.Errorf("%w: %d bytes", ErrBadToken, len(token))
	}
	var c claims
	if _, err := t.parser.ParseWithClaims(token, &c, t.key); err != nil {
		return verifiedToken{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	who, err := c.principal()
	if err != nil {
		return verifiedToken{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	return verifiedToken{who: who, from: validFrom(c.NotBefore, c.IssuedAt)}, nil
}

// validFrom returns the later of two claims, either of which may be missing.
func validFrom(notBefore, issuedAt *jwt.NumericDate) (from time.Time) {
	for _, claim := range []*jwt.NumericDate{notBefore, issuedAt} {
		if claim != nil && claim.After(from) {
			from = claim.Time
		}
	}
	return from
}

// key returns the public key that a token's header names. It looks only among
// our own, and at nothing else of the header.
func (t *Tokens) key(token *jwt.Token) (any, error) {
	if err := checkCritical(token); err != nil {
		return nil, err
	}
	if token.Header["typ"] != tokenType {
		return nil, errors.New("typ is not " + tokenType)
	}
	id, _ := token.Header["kid"].(string)
	key, ok := t.keys.public[id]
	if !ok {
		return nil, errors.New("kid is not known")
	}
	return key, nil
}

// principal reads the claims that the parser does not know. All of them are required but sid.
func (c *claims) principal() (who Principal, err error) {
	if who.UserID, err = schema.ParseID(schema.UserPrefix, c.Subject); err != nil {
		return Principal{}, fmt.Errorf("sub: %w", err)
	}
	if who.AccountID, err = schema.ParseID(schema.AccountPrefix, c.Account); err != nil {
		return Principal{}, fmt.Errorf("acc: %w", err)
	}
	if c.SignIn != "" {
		if who.SignIn, err = schema.ParseID(signInPrefix, c.SignIn); err != nil {
			return Principal{}, fmt.Errorf("sid: %w", err)
		}
	}
	if !c.Role.Valid() {
		return Principal{}, errors.New("role is not known")
	}
	if c.IssuedAt == nil || c.ID == "" {
		return Principal{}, errors.New("iat or jti is missing")
	}
	who.Role, who.ExpiresAt = c.Role, c.ExpiresAt.Time
	return who, nil
}
