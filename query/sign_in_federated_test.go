package query_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

type roles = map[string]account.Role

// Whoever an outside provider signs in reads and manages as its claims say, is named in
// the audit log, and can be shut out.
func TestFederatedUsers(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	w := provider.world(t)
	// A user of ours has the same address, and is somebody else.
	w.alice.colleague("grace@example.org", account.Viewer)

	for id := range methods {
		w.send(provider.sign(id, provider.claims(w.alice)), http.MethodGet, "/v1/auth/me", "").want(http.StatusOK)
	}
	token := provider.sign("r1", provider.claims(w.alice))
	var me struct {
		UserID string `json:"user_id"`
		Email  string
		Role   string
	}
	w.send(token, http.MethodGet, "/v1/auth/me", "").decode(http.StatusOK, &me)
	if me.Email != "grace@example.org" || me.Role != "admin" {
		t.Errorf("me = %+v, want an admin", me)
	}
	w.send(token, http.MethodPost, "/v1/api-keys", `{"name":"n"}`).want(http.StatusCreated)
	w.send(token, http.MethodGet, "/v1/users", "").refused(http.StatusForbidden)
	var acts struct {
		Data []struct {
			UserID string `json:"user_id"`
			Email  string
			Issuer string
		}
	}
	w.alice.get("/v1/audit").decode(http.StatusOK, &acts)
	if len(acts.Data) != 1 || acts.Data[0].UserID != me.UserID || acts.Data[0].Email != me.Email || acts.Data[0].Issuer != provider.issuer {
		t.Errorf("GET /v1/audit = %+v", acts)
	}

	// The role is the provider's to give, at once, and the password is its to keep.
	lesser := provider.claims(w.alice)
	lesser["realm"] = map[string]any{"groups": "finance"}
	w.send(provider.sign("e1", lesser), http.MethodGet, "/v1/api-keys", "").refused(http.StatusForbidden)
	w.alice.change(me.UserID, `{"role":"owner"}`).refused(http.StatusConflict)
	w.alice.change(me.UserID, `{"password":"a long password"}`).refused(http.StatusConflict)
	w.send(token, http.MethodPost, "/v1/auth/password", `{"current_password":"x","new_password":"a long password"}`).refused(http.StatusConflict)

	var users struct {
		Data []struct{ ID, Email, Role, Issuer string }
	}
	w.alice.get("/v1/users").decode(http.StatusOK, &users)
	shown := map[string]string{}
	for _, user := range users.Data {
		shown[user.ID] = user.Issuer
	}
	if len(shown) != 3 || shown[me.UserID] != provider.issuer || shown[w.alice.user.ID.Text(schema.UserPrefix)] != "" {
		t.Errorf("GET /v1/users = %+v", users)
	}
	w.alice.change(me.UserID, `{"disabled":true}`).want(http.StatusOK)
	w.send(token, http.MethodGet, "/v1/events", "").refused(http.StatusUnauthorized)
	w.login("grace@example.org", password).want(http.StatusOK)

	// Elsewhere the same person is another user.
	w.send(provider.sign("c1", provider.claims(w.bob)), http.MethodGet, "/v1/auth/me", "").want(http.StatusOK)
	if got := testutil.CollectAndCount(w.registry, "outlay_query_outside_tokens_total"); got != 2 {
		t.Errorf("%d outcomes of outside tokens are counted, want 2", got)
	}
}

// An outside owner does not count as the one who can always sign in.
func TestFederatedOwnerIsNotTheLast(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	w := provider.world(t)
	claims := provider.claims(w.alice)
	claims["realm"] = map[string]any{"groups": []string{"board"}}
	owner := provider.sign("r1", claims)
	me := w.alice.user.ID.Text(schema.UserPrefix)
	w.send(owner, http.MethodPatch, "/v1/users/"+me, `{"disabled":true}`).refused(http.StatusConflict)
}

// Claims are mapped as the setting says, and an audience among several is enough.
func TestClaimsAreMapped(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	var accounts map[string]string
	w := newWorldWith(t, database(t), func(c *query.Config) {
		accounts = map[string]string{}
		c.IdentityProviders = []auth.Provider{{
			Issuer: provider.issuer, Audience: "outlay-api", JWKSURL: provider.url, Algorithms: []string{"ES256"},
			AccountClaim: "https://example.com/org.id", Accounts: accounts, RoleClaim: "role",
		}}
	})
	accounts["acme"] = w.alice.account.Text(schema.AccountPrefix)
	claims := provider.claims(w.alice)
	claims["https://example.com/org.id"], claims["role"] = "acme", "viewer"
	claims["aud"] = []string{"other", "outlay-api"}
	w.send(provider.sign("c1", claims), http.MethodGet, "/v1/events", "").want(http.StatusOK)
	w.send(provider.sign("r1", claims), http.MethodGet, "/v1/events", "").refused(http.StatusUnauthorized)
	claims["https://example.com/org.id"] = w.bob.account.Text(schema.AccountPrefix)
	w.send(provider.sign("c1", claims), http.MethodGet, "/v1/events", "").refused(http.StatusUnauthorized)
}

// Whatever is wrong with a provider's token, nothing is read: 401, with the scheme.
func TestBadFederatedTokensAreRefused(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	w := provider.world(t)
	good := provider.sign("r1", provider.claims(w.alice))
	w.send(good, http.MethodGet, "/v1/events", "").want(http.StatusOK)
	for name, token := range w.badFederatedTokens(provider) {
		answer := w.send(token, http.MethodGet, "/v1/events", "")
		if refusal := answer.refused(http.StatusUnauthorized); refusal.Title != "Unauthorized" || answer.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %+v with WWW-Authenticate %q", name, refusal, answer.header.Get("WWW-Authenticate"))
		}
	}
}

// badFederatedTokens differ from a good one in one thing each.
func (w *world) badFederatedTokens(provider *idp) map[string]string {
	good := provider.sign("r1", provider.claims(w.alice))
	parts := strings.Split(good, ".")
	public := provider.keys["r1"].Public().(*rsa.PublicKey)
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		w.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		w.t.Fatal(err)
	}
	with := func(method jwt.SigningMethod, key any, header map[string]any) string {
		return signToken(w.t, method, key, header, provider.claims(w.alice))
	}
	r1 := map[string]any{"kid": "r1"}
	own, ours := provider.claims(w.alice), provider.claims(w.alice)
	own["iss"], ours["iss"], ours["aud"] = "https://evil.example/", "outlay", "outlay"
	tokens := map[string]string{
		"alg none":                   with(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, r1),
		"no signature":               parts[0] + "." + parts[1] + ".",
		"truncated":                  good[:len(good)-3],
		"two parts":                  parts[0] + "." + parts[1],
		"HS256 with the PEM":         with(jwt.SigningMethodHS256, text, r1),
		"HS256 with the DER":         with(jwt.SigningMethodHS256, der, r1),
		"HS256 with the modulus":     with(jwt.SigningMethodHS256, public.N.Bytes(), r1),
		"HS256 with a shared key":    with(jwt.SigningMethodHS256, []byte("secret"), map[string]any{"kid": "shared"}),
		"RS512":                      with(jwt.SigningMethodRS512, provider.keys["r1"], r1),
		"PS256":                      with(jwt.SigningMethodPS256, provider.keys["r1"], r1),
		"ES256 under an RSA kid":     with(jwt.SigningMethodES256, provider.keys["c1"], r1),
		"EdDSA under an RSA kid":     with(jwt.SigningMethodEdDSA, provider.keys["e1"], r1),
		"another installation's key": with(jwt.SigningMethodRS256, stranger, r1),
		"our key, its issuer":        with(jwt.SigningMethodEdDSA, w.private, map[string]any{"kid": w.keys.JWKS().Keys[0].KeyID}),
		"its key, our issuer":        signToken(w.t, jwt.SigningMethodEdDSA, provider.keys["e1"], map[string]any{"kid": "e1"}, ours),
		"wrong iss":                  signToken(w.t, jwt.SigningMethodRS256, provider.keys["r1"], r1, own),
	}
	for name, header := range map[string]map[string]any{
		"unknown kid": {"kid": "x"}, "no kid": {}, "kid is a number": {"kid": 1}, "a broken key's kid": {"kid": "broken"},
		"an encryption key's kid": {"kid": "for-encryption"}, "crit": {"kid": "r1", "crit": []string{"exp"}},
		"another typ": {"kid": "r1", "typ": "logout+jwt"}, "typ is a number": {"kid": "r1", "typ": 1},
	} {
		tokens[name] = with(jwt.SigningMethodRS256, provider.keys["r1"], header)
	}
	jwk := publicJWK(stranger)
	tokens["its own key in the header"] = with(jwt.SigningMethodRS256, stranger, map[string]any{"kid": "r9", "jwk": jwk, "jku": provider.url})
	maps.Copy(tokens, w.badFederatedClaims(provider))
	return tokens
}

// badFederatedClaims are well signed, and say what is not accepted.
func (w *world) badFederatedClaims(provider *idp) map[string]string {
	now := provider.clock()
	tokens := map[string]string{}
	for name, change := range map[string]func(c jwt.MapClaims){
		"expired":         func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() },
		"no exp":          func(c jwt.MapClaims) { delete(c, "exp") },
		"exp is a text":   func(c jwt.MapClaims) { c["exp"] = "never" },
		"not yet valid":   func(c jwt.MapClaims) { c["nbf"] = now.Add(time.Minute).Unix() },
		"iat ahead":       func(c jwt.MapClaims) { c["iat"] = now.Add(time.Hour).Unix() },
		"wrong aud":       func(c jwt.MapClaims) { c["aud"] = "outlay" },
		"no aud":          func(c jwt.MapClaims) { delete(c, "aud") },
		"aud of others":   func(c jwt.MapClaims) { c["aud"] = []string{"a", "b"} },
		"issuer's prefix": func(c jwt.MapClaims) { c["iss"] = strings.TrimSuffix(provider.issuer, "/") },
		"no sub":          func(c jwt.MapClaims) { delete(c, "sub") },
		"sub with NUL":    func(c jwt.MapClaims) { c["sub"] = "a\x00" },
		"long sub":        func(c jwt.MapClaims) { c["sub"] = strings.Repeat("x", 256) },
		"no account":      func(c jwt.MapClaims) { delete(c, "tenant") },
		"a user for an account": func(c jwt.MapClaims) {
			c["tenant"] = w.alice.user.ID.Text(schema.UserPrefix)
		},
		"an account that is not there": func(c jwt.MapClaims) { c["tenant"] = schema.NewID(now).Text(schema.AccountPrefix) },
		"two accounts": func(c jwt.MapClaims) {
			c["tenant"] = []string{w.alice.account.Text(schema.AccountPrefix), w.bob.account.Text(schema.AccountPrefix)}
		},
		"no role":        func(c jwt.MapClaims) { delete(c, "realm") },
		"unmapped role":  func(c jwt.MapClaims) { c["realm"] = map[string]any{"groups": []string{"owner", "admin"}} },
		"role elsewhere": func(c jwt.MapClaims) { c["realm"], c["role"] = "finance", "owner" },
	} {
		claims := provider.claims(w.alice)
		change(claims)
		tokens[name] = provider.sign("r1", claims)
	}
	return tokens
}

// A new key works as soon as the provider shows it, an old one no longer than an hour,
// and a provider that is down signs nobody out.
func TestProviderKeysRotate(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	w := provider.world(t)
	ask := func(token string) int { return w.send(token, http.MethodGet, "/v1/events", "").status }
	token := func(id string) string { return provider.sign(id, provider.claims(w.alice)) }
	if got := ask(token("r1")); got != http.StatusOK || provider.fetched() != 1 {
		t.Fatalf("the first token = %d after %d fetches", got, provider.fetched())
	}
	// Its signature is remembered, and is not good any more all the same.
	old := token("e1")
	for range 2 {
		if got := ask(old); got != http.StatusOK {
			t.Fatalf("a key before it is withdrawn = %d", got)
		}
	}
	provider.change(func() {
		delete(provider.keys, "e1")
		provider.keys["c2"] = newCurveKey(t)
	})
	// Tokens with made-up keys do not make us ask again and again.
	for range 20 {
		if got := ask(token("c2")); got != http.StatusUnauthorized {
			t.Fatalf("a new key within the pause = %d", got)
		}
	}
	if n := provider.fetched(); n != 1 {
		t.Errorf("%d fetches within the pause, want 1", n)
	}
	provider.pass(31 * time.Second)
	for range 3 {
		if got := ask(token("c2")); got != http.StatusOK {
			t.Errorf("a new key after the pause = %d, want 200", got)
		}
	}
	if got := ask(old); got != http.StatusUnauthorized {
		t.Errorf("a withdrawn key = %d, want 401", got)
	}

	for name, down := range map[string]http.HandlerFunc{
		"500": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/elsewhere", http.StatusFound)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no JSON": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>") },
		"no keys": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"keys":[]}`) },
		"too much": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"keys":[`, strings.Repeat(" ", 1<<20), `]}`)
		},
	} {
		provider.change(func() { provider.answer = down })
		provider.pass(31 * time.Second)
		before := provider.fetched()
		if got := ask(signToken(t, jwt.SigningMethodRS256, provider.keys["r1"], map[string]any{"kid": "new"}, provider.claims(w.alice))); got != http.StatusUnauthorized {
			t.Errorf("%s: an unknown key = %d, want 401", name, got)
		}
		if got := provider.fetched(); got != before+1 {
			t.Errorf("%s: %d fetches, want 1", name, got-before)
		}
		if got := ask(token("r1")); got != http.StatusOK {
			t.Errorf("%s: a known key = %d, want 200", name, got)
		}
	}
}

// A provider that is down when we start is asked again until it answers, and our own
// tokens do not wait for it.
func TestProviderIsDownAtTheStart(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	provider.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
	w := provider.world(t)
	token := provider.sign("r1", provider.claims(w.alice))
	w.send(token, http.MethodGet, "/v1/events", "").refused(http.StatusUnauthorized)
	w.send(w.alice.token, http.MethodGet, "/v1/events", "").want(http.StatusOK)
	provider.change(func() { provider.answer = nil })
	provider.pass(31 * time.Second)
	w.send(token, http.MethodGet, "/v1/events", "").want(http.StatusOK)
}

// Run fetches the keys before the first token comes, and ends with its context.
func TestRunFetchesKeysAhead(t *testing.T) {
	t.Parallel()
	provider := newIDP(t)
	w := provider.world(t)
	fetched := make(chan struct{})
	provider.answer = func(rw http.ResponseWriter, _ *http.Request) {
		defer close(fetched)
		rw.WriteHeader(http.StatusBadGateway)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.server.Run(ctx)
	}()
	<-fetched
	cancel()
	<-ended
}
