package query_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/secret"
)

// act is what tests look at of a line of the audit log.
type act struct {
	Action, Target, UserID, Reason, Address string
}

// acts reads the audit log of a person's account, oldest first, until it has want lines.
func (p *person) acts(want int) (acts []act) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var page struct {
			Data []struct {
				Action, Target, Address string
				UserID                  string `json:"user_id"`
				Detail                  struct{ Reason string }
			}
		}
		answer := p.get("/v1/audit?limit=500")
		answer.decode(http.StatusOK, &page)
		if bytes.Contains(answer.body, []byte("wrong password")) || bytes.Contains(answer.body, []byte(password)) {
			p.t.Fatalf("the audit log has a password: %s", answer.body)
		}
		acts = nil
		for _, a := range page.Data {
			acts = append(acts, act{a.Action, a.Target, a.UserID, a.Detail.Reason, a.Address})
		}
		if len(acts) >= want {
			slices.Reverse(acts)
			return acts
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the audit log has %d lines, want %d: %v", len(acts), want, acts)
		}
	}
}

// Sign-ins, good and failed, refresh tokens that come twice, and sign-outs are in the
// audit log of the account with their address, and no password is.
func TestSignInsAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) { c.TrustedProxies = []string{"127.0.0.0/8"} })
	alice := w.alice.user.ID.Text(schema.UserPrefix)
	const home = "192.0.2.7"
	var s signedIn
	w.loginFrom(home, "alice@example.com", "wrong password").refused(http.StatusUnauthorized)
	want := []act{{"sign_in.fail", alice, "", "wrong_password", home}}
	if diff := cmp.Diff(want, w.alice.acts(1)); diff != "" {
		t.Fatalf("audit log (-want +got):\n%s", diff)
	}
	w.loginFrom(home, "alice@example.com", password).decode(http.StatusOK, &s)
	want = append(want, act{"sign_in.start", alice, alice, "", home})
	post := func(path, token string) *answer {
		return w.ask(http.MethodPost, path, fmt.Sprintf(`{"refresh_token":%q}`, token), "Content-Type", "application/json", "X-Forwarded-For", home)
	}
	first := s.RefreshToken
	post("/v1/auth/refresh", first).decode(http.StatusOK, &s)
	post("/v1/auth/refresh", first).refused(http.StatusUnauthorized)
	post("/v1/auth/refresh", first).refused(http.StatusUnauthorized)
	want = append(want, act{"sign_in.reuse", alice, "", "", home})
	post("/v1/auth/logout", s.RefreshToken).want(http.StatusNoContent) // It has ended already.
	w.loginFrom(home, "alice@example.com", password).decode(http.StatusOK, &s)
	post("/v1/auth/logout", s.RefreshToken).want(http.StatusNoContent)
	want = append(want, act{"sign_in.start", alice, alice, "", home}, act{"sign_in.end", alice, alice, "", home})
	if diff := cmp.Diff(want, w.alice.acts(len(want))); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	if got := w.bob.acts(0); len(got) > 0 {
		t.Errorf("another account's audit log has %v", got)
	}
}

// A flood of failed sign-ins does not fill the audit log: what is slowed is there once.
func TestFloodOfFailedSignInsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), behindProxy(time.Now()))
	for range 200 {
		w.loginFrom("192.0.2.7", "alice@example.com", "wrong password")
	}
	gone := w.alice.colleague("gone@example.com", account.Viewer)
	if err := account.NewStore(w.pool, time.Now).Disable(t.Context(), gone.AccountID, gone.ID); err != nil {
		t.Fatal(err)
	}
	w.loginFrom("192.0.2.8", "gone@example.com", password).refused(http.StatusUnauthorized)
	reasons := map[string]int{}
	for _, a := range w.alice.acts(8) {
		reasons[a.Reason]++
	}
	if diff := cmp.Diff(map[string]int{"wrong_password": 6, "too_many_failures": 1, "user_disabled": 1}, reasons); diff != "" {
		t.Errorf("failed sign-ins in the audit log (-want +got):\n%s", diff)
	}
}

// A sign-in ends after its lifetime however often it is refreshed.
func TestSignInEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Now = func() time.Time { return now } })
	var s signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	for range 5 {
		now = now.Add(5 * 24 * time.Hour)
		w.refresh(s.RefreshToken).decode(http.StatusOK, &s)
	}
	now = now.Add(5*24*time.Hour + time.Second)
	w.refresh(s.RefreshToken).refused(http.StatusUnauthorized)
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	w.refresh(s.RefreshToken).want(http.StatusOK)
}

// An owner does not learn that an e-mail address has a user in another account: making
// one works as for any other, and whoever has both signs in to either.
func TestEmailOfAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), behindProxy(time.Now()))
	create := func(email, secret string) *answer {
		body, err := json.Marshal(map[string]string{"email": email, "password": secret, "role": "viewer"})
		if err != nil {
			t.Fatal(err)
		}
		return w.send(w.alice.token, http.MethodPost, "/v1/users", string(body))
	}
	var made, other map[string]any
	create("bob@example.com", "another long password").decode(http.StatusCreated, &made)
	create("nobody@example.com", "another long password").decode(http.StatusCreated, &other)
	for name := range other {
		if _, ok := made[name]; !ok || len(made) != len(other) {
			t.Errorf("a user whose address is known answers %v, one whose is not %v", made, other)
		}
	}
	create("BOB@example.com", "another long password").refused(http.StatusConflict)

	account := func(body string) string {
		var s signedIn
		w.ask(http.MethodPost, "/v1/auth/login", body, "Content-Type", "application/json").decode(http.StatusOK, &s)
		var me struct {
			AccountID string `json:"account_id"`
		}
		w.send(s.Token, http.MethodGet, "/v1/auth/me", "").decode(http.StatusOK, &me)
		return me.AccountID
	}
	ours, theirs := w.alice.account.Text(schema.AccountPrefix), w.bob.account.Text(schema.AccountPrefix)
	if got := account(fmt.Sprintf(`{"email":"bob@example.com","password":%q}`, password)); got != theirs {
		t.Errorf("bob's own password signs in to %s, want %s", got, theirs)
	}
	if got := account(`{"email":"bob@example.com","password":"another long password"}`); got != ours {
		t.Errorf("the other password signs in to %s, want %s", got, ours)
	}
	id := made["id"].(string)
	w.send(w.alice.token, http.MethodPatch, "/v1/users/"+id, fmt.Sprintf(`{"password":%q}`, password)).want(http.StatusOK)
	for _, want := range []string{ours, theirs} {
		if got := account(fmt.Sprintf(`{"email":"bob@example.com","password":%q,"account_id":%q}`, password, want)); got != want {
			t.Errorf("with account_id %s the password signs in to %s", want, got)
		}
	}
	// Where a stranger's failed sign-ins come from is not for the owner of an account who added the address.
	w.loginFrom("192.0.2.9", "bob@example.com", "wrong password").refused(http.StatusUnauthorized)
	for _, a := range w.bob.acts(3) {
		if a.Action == "sign_in.fail" && a.Address != "" {
			t.Errorf("a failed sign-in of two accounts' user shows its address: %+v", a)
		}
	}
	w.send("", http.MethodPost, "/v1/auth/login", `{"email":"bob@example.com","password":"x","account_id":"usr_x"}`).refused(http.StatusUnprocessableEntity)
}

// The secrets of channels that are made over HTTP are encrypted in the database.
func TestChannelSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := secret.Create(path); err != nil {
		t.Fatal(err)
	}
	keys, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, database(t), func(c *query.Config) { c.Secrets = keys })
	w.alice.post("/v1/alerts", `{"name":"n","metric":"events","window":"1h","condition":{"type":"above","value":1},
		"channels":[{"type":"webhook","url":"https://example.com/hook"},{"type":"slack","url":"https://hooks.slack.example/services/T/B/hidden"}]}`).want(http.StatusCreated)
	var stored []string
	if err := w.pool.QueryRow(t.Context(), `SELECT array_agg(secret) FROM alert_secrets`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	for _, text := range stored {
		if !strings.HasPrefix(text, keys.Prefix()) {
			t.Errorf("the database has %s", text)
		}
	}
	if len(stored) != 2 {
		t.Errorf("%d secrets are kept, want 2", len(stored))
	}
}
