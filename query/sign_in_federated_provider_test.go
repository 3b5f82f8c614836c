package query_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
)

// idp is an outside identity provider with a key set that tests change.
type idp struct {
	t      *testing.T
	issuer string
	url    string

	mu      sync.Mutex
	now     time.Time
	keys    map[string]crypto.Signer
	answer  http.HandlerFunc // nil: the keys
	fetches int
}

// rsaKey is made once: it takes a while.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// newIDP starts a provider with a key of each kind.
func newIDP(t *testing.T) *idp {
	t.Helper()
	i := &idp{t: t, issuer: "https://login.example.com/", now: time.Now(), keys: map[string]crypto.Signer{}}
	shared, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	i.keys["r1"], i.keys["c1"], i.keys["e1"] = shared, newCurveKey(t), newEdwardsKey(t)
	front := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(front.Close)
	i.url = front.URL + "/keys"
	return i
}

func newCurveKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newEdwardsKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (i *idp) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.fetches++
	answer := i.answer
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	// What a provider may publish besides must not get in the way.
	keys := []map[string]any{
		{"kty": "oct", "kid": "shared", "alg": "HS256", "k": "c2VjcmV0"},
		{"kty": "new", "kid": "future"},
		{"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"},
		{"kty": "OKP", "crv": "Ed25519", "kid": "for-encryption", "use": "enc", "x": encode(make([]byte, 32))},
	}
	for id, key := range i.keys {
		jwk := publicJWK(key)
		jwk["kid"] = id
		keys = append(keys, jwk)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func publicJWK(key crypto.Signer) map[string]any {
	switch key := key.Public().(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := key.Bytes()
		return map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": encode(key)}
	}
	panic("BUG: no JWK for this key")
}

// change runs f while nothing is served.
func (i *idp) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *idp) fetched() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// clock is the time of provider and server alike.
func (i *idp) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

// pass lets time go by.
func (i *idp) pass(d time.Duration) { i.change(func() { i.now = i.now.Add(d) }) }

// claims of a good token for a person's account.
func (i *idp) claims(p *person) jwt.MapClaims {
	now := i.clock()
	return jwt.MapClaims{
		"iss": i.issuer, "aud": "outlay-api", "sub": "employee-7", "email": "grace@example.org", "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(), "tenant": p.account.Text(schema.AccountPrefix),
		"realm": map[string]any{"groups": []string{"staff", "finance", "platform"}},
	}
}

// methods are the algorithms of the keys.
var methods = map[string]jwt.SigningMethod{
	"r1": jwt.SigningMethodRS256, "c1": jwt.SigningMethodES256, "e1": jwt.SigningMethodEdDSA,
}

// sign makes a token with one of the provider's keys.
func (i *idp) sign(id string, claims jwt.MapClaims) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return signToken(i.t, methods[id[:1]+"1"], i.keys[id], map[string]any{"kid": id}, claims)
}

// signToken makes any token.
func signToken(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// world is a server that accepts the provider's tokens.
func (i *idp) world(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, database(t), func(c *query.Config) {
		c.Now = i.clock
		c.IdentityProviders = []auth.Provider{{
			Issuer: i.issuer, Audience: "outlay-api", JWKSURL: i.url,
			AccountClaim: "tenant", RoleClaim: "realm.groups",
			Roles: roles{"finance": "viewer", "platform": "admin", "board": "owner"},
		}}
	})
}
