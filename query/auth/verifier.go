package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Verifier checks access tokens, our own and those of outside identity providers. It is
// safe for concurrent use.
type Verifier struct {
	own     *Tokens
	outside *Outside
	// count is told whether a token of an outside provider was accepted.
	count func(accepted bool)
}

// NewVerifier returns a Verifier. count is told of each outside token whether it was
// accepted.
func NewVerifier(own *Tokens, outside *Outside, count func(accepted bool)) *Verifier {
	return &Verifier{own, outside, count}
}

// Verify returns who a token speaks for, or an error that is ErrBadToken. Who issued it
// decides whose keys and rules it is held to, and nothing else of the token does.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	if len(token) > maxTokenBytes {
		return Principal{}, fmt.Errorf("%w: %d bytes", ErrBadToken, len(token))
	}
	issuer, known := v.outside.issuers[claimedIssuer(token)]
	if !known {
		return v.own.Verify(token)
	}
	who, err := issuer.verify(ctx, token)
	v.count(err == nil)
	if err != nil {
		return Principal{}, fmt.Errorf("%w: of %s: %w", ErrBadToken, issuer.Issuer, err)
	}
	return who, nil
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
