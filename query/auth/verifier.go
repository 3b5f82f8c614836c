package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Verifier checks access tokens, our own and those of outside identity providers. It is
// safe for concurrent use.
type Verifier struct {
	own       *Tokens
	federated *Federated
	verified  *tokenCache
	deps      VerifierDeps
}

// The outcomes of a check.
const (
	// TokenRemembered is good, and its signature was checked before.
	TokenRemembered = "remembered"
	TokenVerified   = "verified"
	TokenRefused    = "refused"
)

// VerifierDeps are what a Verifier works with.
type VerifierDeps struct {
	Now func() time.Time
	// Checked gets the outcome of each check.
	Checked func(outcome string)
	// Federated is notified of each token of an outside provider whether it was accepted.
	Federated func(accepted bool)
}

// NewVerifier returns a Verifier that remembers no token.
func NewVerifier(own *Tokens, federated *Federated, d VerifierDeps) *Verifier {
	return &Verifier{own, federated, newTokenCache(), d}
}

// Verify returns who a token speaks for, or an error that is ErrBadToken.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	if len(token) > maxTokenBytes {
		v.deps.Checked(TokenRefused)
		return Principal{}, fmt.Errorf("%w: %d bytes", ErrBadToken, len(token))
	}
	// The whole token is hashed: another signature under the same claims is another token.
	sum := tokenSum(sha256.Sum256([]byte(token)))
	good, known := v.verified.find(sum, v.deps.Now())
	if !known {
		var err error
		if good, err = v.verify(ctx, token); err != nil {
			v.deps.Checked(TokenRefused)
			return Principal{}, err
		}
		v.verified.remember(sum, good)
	}
	if known {
		v.deps.Checked(TokenRemembered)
	} else {
		v.deps.Checked(TokenVerified)
	}
	if good.issuer != nil {
		v.deps.Federated(true)
	}
	return good.who, nil
}

// verify checks all of a token. Who issued it decides whose keys and rules it is held to,
// and nothing else of the token does.
func (v *Verifier) verify(ctx context.Context, token string) (verifiedToken, error) {
	issuer, known := v.federated.issuers[claimedIssuer(token)]
	if !known {
		return v.own.verify(token)
	}
	good, err := issuer.verify(ctx, token)
	if err != nil {
		v.deps.Federated(false)
		return verifiedToken{}, fmt.Errorf("%w: of %s: %w", ErrBadToken, issuer.Issuer, err)
	}
	return good, nil
}

// claimedIssuer returns the iss claim of a token that nobody has checked yet, or "".
func claimedIssuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
