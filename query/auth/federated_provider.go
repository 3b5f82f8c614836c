package auth

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// Provider is an outside identity provider whose tokens are accepted beside our own.
type Provider struct {
	// Issuer is the iss claim of its tokens, to the letter. Required.
	Issuer string `json:"issuer"`
	// Audience is the aud claim by which a token is meant for us. Required: without it any
	// token that the provider makes for anybody would do.
	Audience string `json:"audience"`
	// JWKSURL is where the provider publishes its keys, by https; plain http is for this
	// machine only. Required.
	JWKSURL string `json:"jwks_url"`
	// Algorithms are those that its tokens may be signed with. Defaults to RS256, ES256 and
	// EdDSA, which are all there are.
	Algorithms []string `json:"algorithms"`
	// AccountClaim names the claim that says which account a token is for. Defaults to "acc".
	AccountClaim string `json:"account_claim"`
	// Accounts says what the values of AccountClaim stand for, by account id. Without it the
	// claim holds the account id itself.
	Accounts map[string]string `json:"accounts"`
	// RoleClaim names the claim that says what the user may do. Defaults to "role". Like
	// AccountClaim it may be a path through objects, such as "realm_access.roles", and its
	// value one text or a list of texts.
	RoleClaim string `json:"role_claim"`
	// Roles says what the values of RoleClaim stand for; others stand for nothing, and of
	// several the one that may do most holds. Without it the claim holds the role itself.
	Roles map[string]account.Role `json:"roles"`
}

// federatedAlgorithms are signed with a private key, so that whoever can check a token
// cannot make one.
var federatedAlgorithms = []string{
	jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodEdDSA.Alg(),
}

func (p Provider) withDefaults() Provider {
	if len(p.Algorithms) == 0 {
		p.Algorithms = federatedAlgorithms
	}
	if p.AccountClaim == "" {
		p.AccountClaim = "acc"
	}
	if p.RoleClaim == "" {
		p.RoleClaim = "role"
	}
	return p
}

// maxIssuerLength keeps an issuer and a subject together small enough to be looked up.
const maxIssuerLength = 500

func (p Provider) validate() error {
	switch {
	case p.Issuer == "":
		return errors.New("issuer is missing")
	case schema.TextFault(p.Issuer, maxIssuerLength) != "":
		return errors.New("issuer " + schema.TextFault(p.Issuer, maxIssuerLength))
	case p.Audience == "":
		return errors.New("audience is missing")
	case !safeAddress(p.JWKSURL):
		return errors.New("jwks_url is not an https address; http is for this machine only")
	}
	for _, algorithm := range p.Algorithms {
		if !slices.Contains(federatedAlgorithms, algorithm) {
			return fmt.Errorf("algorithm %q is none of %v", algorithm, federatedAlgorithms)
		}
	}
	for value, id := range p.Accounts {
		if _, err := schema.ParseID(schema.AccountPrefix, id); err != nil {
			return fmt.Errorf("accounts: %q of %q is not an account id; it looks like acc_01jd…", id, value)
		}
	}
	for value, role := range p.Roles {
		if !role.Valid() {
			return fmt.Errorf("roles: %q of %q is none of viewer, admin, owner", role, value)
		}
	}
	return nil
}

// safeAddress reports whether nobody on the way can exchange what comes from an address.
func safeAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}
