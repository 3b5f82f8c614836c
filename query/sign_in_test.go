package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

func (w *world) login(email, secret string) *answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": secret})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send("", http.MethodPost, "/v1/auth/login", string(body))
}

// The token of a sign-in carries the documented claims and opens what the role
// allows.
func TestLoginAnswersAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var reply struct {
		Token     string
		TokenType string `json:"token_type"`
		ExpiresIn int    `json:"expires_in"`
	}
	w.login("ALICE@Example.com", password).decode(http.StatusOK, &reply)
	if reply.TokenType != "Bearer" || reply.ExpiresIn != 3600 {
		t.Errorf("token_type %q, expires_in %d", reply.TokenType, reply.ExpiresIn)
	}
	var claims jwt.MapClaims
	token, _, err := jwt.NewParser().ParseUnverified(reply.Token, &claims)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": w.keys.JWKS().Keys[0].KeyID}, token.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	for name, want := range map[string]any{
		"iss": "outlay", "aud": []any{"outlay"}, "role": "owner",
		"sub": w.alice.user.ID.Text(schema.UserPrefix), "acc": w.alice.account.Text(schema.AccountPrefix),
	} {
		if diff := cmp.Diff(want, claims[name]); diff != "" {
			t.Errorf("claim %s (-want +got):\n%s", name, diff)
		}
	}
	if lasts := claims["exp"].(float64) - claims["nbf"].(float64); lasts != 3600 || claims["jti"] == "" || claims["iat"] == nil {
		t.Errorf("claims = %v", claims)
	}
	var me struct{ Email, Role string }
	w.send(reply.Token, http.MethodGet, "/v1/auth/me", "").decode(http.StatusOK, &me)
	if me.Email != "alice@example.com" || me.Role != "owner" {
		t.Errorf("me = %+v", me)
	}
}

// A wrong password, an unknown address and a disabled user get the same answer.
func TestLoginTellsNobodyWhoExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	gone := w.alice.colleague("gone@example.com", account.Viewer)
	if err := account.NewStore(w.pool, time.Now).Disable(t.Context(), gone.AccountID, gone.ID); err != nil {
		t.Fatal(err)
	}
	want := w.login("alice@example.com", "wrong password").refused(http.StatusUnauthorized)
	for _, credentials := range [][2]string{
		{"nobody@example.com", password},
		{"gone@example.com", password},
		{"not an address", password},
		{"a\x00b@example.com", password},
		{"alice@example.com", "correct horse batterz"},
		{"alice@example.com ", password},
	} {
		got := w.login(credentials[0], credentials[1])
		if diff := cmp.Diff(want, got.refused(http.StatusUnauthorized)); diff != "" {
			t.Errorf("%q (-wrong password +got):\n%s", credentials[0], diff)
		}
	}
	if got := counted(t, w, "wrong"); got != 7 {
		t.Errorf("%v wrong sign-ins counted, want 7", got)
	}
}

func counted(t *testing.T, w *world, outcome string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "outlay_query_sign_ins_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == outcome {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("outlay_query_sign_ins_total{outcome=%q} is not there", outcome)
	return 0
}

// After several failed sign-ins the next has to wait, right or wrong, and is told
// how long; other users sign in meanwhile.
func TestFailedLoginsAreThrottled(t *testing.T) {
	t.Parallel()
	at := time.Now() // It stands still: a busy machine takes longer for a try than the first waits.
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Now = func() time.Time { return at } })
	w.bob.colleague("carol@example.com", account.Viewer)
	slowed := func() *answer {
		for range 10 {
			if a := w.login("alice@example.com", "wrong password"); a.status == http.StatusTooManyRequests {
				return a
			}
		}
		t.Fatal("ten failed sign-ins were not slowed")
		return nil
	}()
	if wait, err := strconv.Atoi(slowed.header.Get("Retry-After")); err != nil || wait < 1 || wait > 900 {
		t.Errorf("Retry-After = %q", slowed.header.Get("Retry-After"))
	}
	if refusal := slowed.refused(http.StatusTooManyRequests); refusal.Title != "Rate limited" {
		t.Errorf("%+v", refusal)
	}
	w.login("alice@example.com", password).refused(http.StatusTooManyRequests)
	w.login("carol@example.com", password).want(http.StatusOK)
	if got := counted(t, w, "slowed"); got != 2 {
		t.Errorf("%v slowed sign-ins counted, want 2", got)
	}
	if got := counted(t, w, "ok"); got != 1 {
		t.Errorf("%v good sign-ins counted, want 1", got)
	}
}

// The published keys check the tokens that are issued.
func TestJWKSChecksTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var set struct {
		Keys []struct{ Kid, X, Alg string }
	}
	w.send("", http.MethodGet, "/.well-known/jwks.json", "").decode(http.StatusOK, &set)
	if len(set.Keys) != 1 || set.Keys[0].Alg != "EdDSA" || set.Keys[0].Kid != w.keys.JWKS().Keys[0].KeyID {
		t.Errorf("jwks = %+v", set)
	}
	if fmt.Sprint(set.Keys[0].X) != encode(w.publicKey()) {
		t.Errorf("x = %q", set.Keys[0].X)
	}
}
