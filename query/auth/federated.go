package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// Federated checks the tokens of outside identity providers. It is safe for concurrent
// use.
type Federated struct {
	issuers map[string]*federatedIssuer
	log     *slog.Logger
}

// FederatedDeps are what Federated works with.
type FederatedDeps struct {
	Now func() time.Time
	Log *slog.Logger
	// Fetched gets the outcome of each try to fetch a provider's keys: FetchOK,
	// FetchFailed or FetchLimited.
	Fetched func(outcome string)
}

// NewFederated returns a Federated that accepts the tokens of providers. ownIssuer is our
// own, which none of them may have. It fetches nothing yet.
func NewFederated(providers []Provider, ownIssuer string, d FederatedDeps) (*Federated, error) {
	f := &Federated{issuers: map[string]*federatedIssuer{}, log: d.Log}
	for _, p := range providers {
		p = p.withDefaults()
		if err := p.validate(); err != nil {
			return nil, fmt.Errorf("identity provider %q: %w", p.Issuer, err)
		}
		if p.Issuer == ownIssuer || f.issuers[p.Issuer] != nil {
			return nil, fmt.Errorf("identity provider %q: the issuer is taken", p.Issuer)
		}
		f.issuers[p.Issuer] = &federatedIssuer{
			Provider: p,
			keys:     newRemoteKeys(p.JWKSURL, d.Now, d.Fetched),
			parser:   newParser(p.Algorithms, p.Issuer, p.Audience, d.Now),
		}
	}
	return f, nil
}

// Run keeps the providers' keys fresh until ctx ends. Without it they are fetched when a
// token asks for one that is not known.
func (f *Federated) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, issuer := range f.issuers {
		wg.Go(func() {
			issuer.keys.keep(ctx, func(err error) {
				f.log.WarnContext(ctx, "keys of an identity provider not fetched, the last ones hold",
					"issuer", issuer.Issuer, "error", err)
			})
		})
	}
	wg.Wait()
}

// federatedIssuer is a provider at work.
type federatedIssuer struct {
	Provider
	keys   *remoteKeys
	parser *jwt.Parser
}

// verify returns who a token speaks for. UserID stays zero: which user that is here,
// SessionState knows.
func (i *federatedIssuer) verify(ctx context.Context, token string) (verifiedToken, error) {
	// The version of before: keys that are exchanged meanwhile have the token checked again.
	version := i.keys.versionNow()
	var claims jwt.MapClaims
	_, err := i.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) { return i.key(ctx, t) })
	if err != nil {
		return verifiedToken{}, err
	}
	who := account.Outsider{Issuer: i.Issuer}
	if who.Subject, err = subjectOf(claims); err != nil {
		return verifiedToken{}, err
	}
	if who.AccountID, err = i.accountOf(claims); err != nil {
		return verifiedToken{}, err
	}
	if who.Role, err = i.roleOf(claims); err != nil {
		return verifiedToken{}, err
	}
	// The name is for people who read the audit log and decides nothing.
	who.Name = who.Subject
	if email, _ := claims["email"].(string); email != "" && account.EmailFault(email) == "" {
		who.Name = email
	}
	// The parser has seen to it that there is one.
	expires, _ := claims.GetExpirationTime()
	notBefore, _ := claims.GetNotBefore()
	issuedAt, _ := claims.GetIssuedAt()
	return verifiedToken{
		who:  Principal{AccountID: who.AccountID, Role: who.Role, ExpiresAt: expires.Time, Outsider: &who},
		from: validFrom(notBefore, issuedAt), issuer: i, keyVersion: version,
	}, nil
}

// acceptedTypes are the typ headers of tokens that are accepted; some providers send none.
var acceptedTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// key returns the provider's key that a token's header names, if it is for the token's
// algorithm. Nothing else of the header is looked at.
func (i *federatedIssuer) key(ctx context.Context, token *jwt.Token) (any, error) {
	if err := checkCritical(token); err != nil {
		return nil, err
	}
	kind, isText := token.Header["typ"].(string)
	if _, given := token.Header["typ"]; given && !isText || !slices.Contains(acceptedTypes, strings.ToLower(kind)) {
		return nil, errors.New("typ is not one of a token")
	}
	id, _ := token.Header["kid"].(string)
	if id == "" {
		return nil, errors.New("kid is missing")
	}
	key, err := i.keys.find(ctx, id)
	if err != nil {
		return nil, err
	}
	// A token must not choose another algorithm for a key than the one it was published for.
	if key.algorithm != token.Method.Alg() {
		return nil, errors.New("alg is not the one of the key")
	}
	return key.public, nil
}

// checkCritical refuses a token whose header demands what we do not do.
func checkCritical(token *jwt.Token) error {
	if _, given := token.Header["crit"]; given {
		return errors.New("crit demands what is not understood")
	}
	return nil
}

// subjectOf returns the id that the provider has for the user. It is compared exactly and never with an e-mail
// address.
func subjectOf(claims jwt.MapClaims) (string, error) {
	subject, _ := claims["sub"].(string)
	if strings.TrimSpace(subject) == "" {
		return "", errors.New("sub is missing")
	}
	if fault := schema.TextFault(subject, account.MaxSubjectLength); fault != "" {
		return "", errors.New("sub " + fault)
	}
	return subject, nil
}

// accountOf returns the one account that a token is for.
func (i *federatedIssuer) accountOf(claims jwt.MapClaims) (found schema.ID, err error) {
	for _, value := range claimTexts(claims, i.AccountClaim) {
		text := value
		if i.Accounts != nil {
			text = i.Accounts[value]
		}
		// Claims hold groups of other systems too: what is no account is skipped.
		id, err := schema.ParseID(schema.AccountPrefix, text)
		if err != nil {
			continue
		}
		// Which one is meant must not be a matter of their order.
		if !found.IsZero() && id != found {
			return schema.ID{}, fmt.Errorf("claim %s names several accounts", i.AccountClaim)
		}
		found = id
	}
	if found.IsZero() {
		return schema.ID{}, fmt.Errorf("claim %s names no account", i.AccountClaim)
	}
	return found, nil
}

// roleOf returns the role of a token that may do most.
func (i *federatedIssuer) roleOf(claims jwt.MapClaims) (found account.Role, err error) {
	for _, value := range claimTexts(claims, i.RoleClaim) {
		role := account.Role(value)
		if i.Roles != nil {
			role = i.Roles[value]
		}
		// The empty role allows nothing, so the first valid one is taken.
		if role.Valid() && !found.Allows(role) {
			found = role
		}
	}
	if found == "" {
		return "", fmt.Errorf("claim %s names no role", i.RoleClaim)
	}
	return found, nil
}

// claimTexts returns the texts of a claim, which is looked for under its whole name
// first and then as a path.
func claimTexts(claims jwt.MapClaims, name string) []string {
	value, given := claims[name]
	if !given {
		value = map[string]any(claims)
		for part := range strings.SplitSeq(name, ".") {
			object, _ := value.(map[string]any)
			value = object[part]
		}
	}
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var texts []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}
		return texts
	}
	return nil
}
