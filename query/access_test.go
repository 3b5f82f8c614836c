package query_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// readPaths are addresses of every endpoint that reads with a token.
func (p *person) readPaths() []string {
	event := p.newEvent(nil)
	p.store(event)
	return []string{
		"/v1/events", "/v1/events/" + event.ID.Text(schema.EventPrefix), "/v1/agents", "/v1/agents/support-bot",
		"/v1/analytics/daily", "/v1/analytics/hourly", "/v1/auth/me",
	}
}

// Without a token, or with one that is not good in every respect, nothing is
// read: 401, with the scheme to use, whatever is wrong.
func TestBadTokensAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	paths := w.alice.readPaths()
	// What is forged without a change is good: the changes make the difference.
	good := w.forge(jwt.SigningMethodEdDSA, w.private, nil)
	for _, path := range paths {
		w.send(good, http.MethodGet, path, "").want(http.StatusOK)
	}
	for name, token := range w.badTokens() {
		for _, path := range paths {
			answer := w.send(token, http.MethodGet, path, "")
			refusal := answer.refused(http.StatusUnauthorized)
			if refusal.Title != "Unauthorized" || answer.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: GET %s = %+v with WWW-Authenticate %q", name, path, refusal, answer.header.Get("WWW-Authenticate"))
			}
		}
	}
}

// badTokens returns tokens of every known attack. Each differs from a good one in
// one thing.
func (w *world) badTokens() map[string]string {
	good := w.alice.token
	parts := strings.Split(good, ".")
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	_, other := newKeys(w.t)
	issue := func(keys *auth.Keys, issuer string, lifetime time.Duration, now time.Time) string {
		tokens := auth.NewTokens(keys, issuer, lifetime, func() time.Time { return now })
		token, _, err := tokens.Issue(auth.Principal{UserID: w.alice.user.ID, AccountID: w.alice.account, Role: account.Owner})
		if err != nil {
			w.t.Fatal(err)
		}
		return token
	}
	now := time.Now()
	confused := w.forge(jwt.SigningMethodHS256, []byte(encode(w.publicKey())), nil)
	raw := []byte(w.publicKey())
	tokens := map[string]string{
		"none":                       "",
		"no signature":               parts[0] + "." + parts[1] + ".",
		"two parts":                  parts[0] + "." + parts[1],
		"truncated":                  good[:len(good)-3],
		"another payload":            parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"outlay"}`)) + "." + parts[2],
		"an API key":                 account.NewSecret(),
		"garbage":                    "x",
		"spaces":                     good + " " + good,
		"very long":                  good + strings.Repeat("x", 20<<10),
		"alg none":                   w.forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"HS256 with the public key":  confused,
		"HS256 with the raw key":     w.forge(jwt.SigningMethodHS256, raw, nil),
		"HS512 with the raw key":     w.forge(jwt.SigningMethodHS512, raw, nil),
		"a stranger's key, our kid":  w.forge(jwt.SigningMethodEdDSA, stranger, nil),
		"another installation's key": issue(other, "outlay", time.Hour, now),
		"wrong iss":                  issue(w.keys, "outlay2", time.Hour, now),
		"expired":                    issue(w.keys, "outlay", time.Hour, now.Add(-time.Hour-time.Minute)),
		"not yet valid":              issue(w.keys, "outlay", time.Hour, now.Add(time.Hour)),
	}
	for name, change := range map[string]func(header, claims map[string]any){
		"no exp":          func(_, c map[string]any) { delete(c, "exp") },
		"no nbf":          func(_, c map[string]any) { delete(c, "nbf") },
		"no iat":          func(_, c map[string]any) { delete(c, "iat") },
		"no jti":          func(_, c map[string]any) { delete(c, "jti") },
		"no iss":          func(_, c map[string]any) { delete(c, "iss") },
		"no aud":          func(_, c map[string]any) { delete(c, "aud") },
		"wrong aud":       func(_, c map[string]any) { c["aud"] = "other" },
		"no acc":          func(_, c map[string]any) { delete(c, "acc") },
		"acc is a user":   func(_, c map[string]any) { c["acc"] = c["sub"] },
		"no sub":          func(_, c map[string]any) { delete(c, "sub") },
		"no role":         func(_, c map[string]any) { delete(c, "role") },
		"unknown role":    func(_, c map[string]any) { c["role"] = "root" },
		"iat ahead":       func(_, c map[string]any) { c["iat"] = now.Add(time.Hour).Unix() },
		"exp is a text":   func(_, c map[string]any) { c["exp"] = "never" },
		"no kid":          func(h, _ map[string]any) { delete(h, "kid") },
		"unknown kid":     func(h, _ map[string]any) { h["kid"] = "x" },
		"kid is a path":   func(h, _ map[string]any) { h["kid"] = "../../etc/passwd" },
		"kid is a number": func(h, _ map[string]any) { h["kid"] = 1 },
		"no typ":          func(h, _ map[string]any) { delete(h, "typ") },
		"another typ":     func(h, _ map[string]any) { h["typ"] = "at+jwt" },
		"crit":            func(h, _ map[string]any) { h["crit"] = []string{"exp"} },
	} {
		tokens[name] = w.forge(jwt.SigningMethodEdDSA, w.private, change)
	}
	tokens["its own key in the header"] = w.forge(jwt.SigningMethodEdDSA, stranger, func(h, _ map[string]any) {
		h["jwk"] = map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(stranger.Public().(ed25519.PublicKey))}
		h["jku"] = "https://example.com/jwks.json"
	})
	for i := range 3 {
		bit := []byte(good)
		place := len(parts[0]) + 1 + i*37
		bit[place] ^= 1
		tokens[fmt.Sprintf("bit flipped at %d", place)] = string(bit)
	}
	return tokens
}

// forge signs the claims of a good token in another way; change alters header and
// claims first.
func (w *world) forge(method jwt.SigningMethod, key any, change func(header, claims map[string]any)) string {
	w.t.Helper()
	var claims jwt.MapClaims
	parsed, _, err := jwt.NewParser().ParseUnverified(w.alice.token, &claims)
	if err != nil {
		w.t.Fatal(err)
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = parsed.Header["kid"]
	if change != nil {
		change(token.Header, claims)
	}
	text, err := token.SignedString(key)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// The token goes into one Authorization header and nowhere else.
func TestTokenIsReadFromOneHeaderOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	ask := func(path string, change func(http.Header)) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(request.Header)
		return w.do(request).status
	}
	bearer := "Bearer " + w.alice.token
	if got := ask("/v1/auth/me", func(h http.Header) { h.Set("Authorization", "bearer "+w.alice.token) }); got != http.StatusOK {
		t.Errorf("a scheme in small letters = %d, want 200", got)
	}
	for name, change := range map[string]func(http.Header){
		"two headers": func(h http.Header) { h["Authorization"] = []string{bearer, bearer} },
		"basic":       func(h http.Header) { h.Set("Authorization", "Basic "+w.alice.token) },
		"no scheme":   func(h http.Header) { h.Set("Authorization", w.alice.token) },
		"cookie":      func(h http.Header) { h.Set("Cookie", "token="+w.alice.token) },
	} {
		if got := ask("/v1/auth/me", change); got != http.StatusUnauthorized {
			t.Errorf("%s = %d, want 401", name, got)
		}
	}
	if got := ask("/v1/events?access_token="+w.alice.token, func(http.Header) {}); got != http.StatusUnauthorized {
		t.Errorf("a token in the query = %d, want 401", got)
	}
}

// Two accounts with the same names see nothing of each other, and each sees its
// own as if the other were not there.
func TestAccountsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	paths := []string{
		"/v1/events", "/v1/events?agent=support-bot", "/v1/events?session_id=one", "/v1/events?q=bot", "/v1/agents",
		"/v1/agents?sort=last_seen", "/v1/agents/support-bot", "/v1/analytics/daily?group_by=agent,model,provider",
		"/v1/analytics/hourly?timezone=Asia/Kolkata", "/v1/analytics/hourly?timezone=Asia/Kathmandu",
	}
	w.store(w.alice.newEvent(nil), w.alice.newEvent(func(e *schema.Event) { e.Agent = "alone" }))
	before := map[string]string{}
	for _, path := range paths {
		before[path] = string(w.alice.get(path).body)
	}
	secret := w.bob.newEvent(func(e *schema.Event) { e.Cost, e.UserID, e.Agent = 77_000_000_000, "bobs-user", "bobs-agent" })
	w.store(w.bob.newEvent(nil), secret)
	for _, path := range paths {
		if after := string(w.alice.get(path).body); after != before[path] {
			t.Errorf("GET %s changed when another account sent events:\n%s\n%s", path, before[path], after)
		}
	}
	for _, path := range []string{"/v1/events/" + secret.ID.Text(schema.EventPrefix), "/v1/agents/bobs-agent"} {
		w.bob.get(path).want(http.StatusOK)
		w.alice.get(path).refused(http.StatusNotFound)
	}
	// Bob's cursor leads Alice to her own events only.
	cursor := w.bob.events("?limit=1").NextCursor
	for _, e := range w.alice.events("?limit=500&cursor=" + *cursor).Data {
		if e.Agent == "bobs-agent" {
			t.Error("a cursor of another account shows its events")
		}
	}
}

// publicKey is the one that the server's tokens are signed for.
func (w *world) publicKey() ed25519.PublicKey { return w.keys.JWKS().Keys[0].Key.(ed25519.PublicKey) }
