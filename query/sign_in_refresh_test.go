package query_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

type signedIn struct {
	Token        string
	RefreshToken string `json:"refresh_token"`
}

func (w *world) refresh(token string) *answer {
	w.t.Helper()
	return w.send("", http.MethodPost, "/v1/auth/refresh", fmt.Sprintf(`{"refresh_token":%q}`, token))
}

func (w *world) reads(token string) int {
	w.t.Helper()
	return w.send(token, http.MethodGet, "/v1/auth/me", "").status
}

// Each refresh token works once and answers the next.
func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var s signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	for range 3 {
		last := s.RefreshToken
		w.refresh(last).decode(http.StatusOK, &s)
		if s.RefreshToken == last || w.reads(s.Token) != http.StatusOK {
			t.Errorf("refreshed to %+v, which reads %d", s, w.reads(s.Token))
		}
	}
	for _, bad := range []string{"x", s.Token, "outlay_refresh_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		w.refresh(bad).refused(http.StatusUnauthorized)
	}
	w.refresh("").refused(http.StatusUnprocessableEntity)
}

// A refresh token that is used twice ends the sign-in for both who have it, and
// no other one.
func TestReusedRefreshTokenEndsTheSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var first, thief, other signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &first)
	w.login("alice@example.com", password).decode(http.StatusOK, &other)
	w.refresh(first.RefreshToken).decode(http.StatusOK, &thief)
	w.refresh(first.RefreshToken).refused(http.StatusUnauthorized)
	w.refresh(thief.RefreshToken).refused(http.StatusUnauthorized)
	if got := w.reads(thief.Token); got != http.StatusUnauthorized {
		t.Errorf("a token of the ended sign-in reads: %d, want 401", got)
	}
	w.refresh(other.RefreshToken).want(http.StatusOK)
	if got := refreshes(t, w.registry, "reused"); got != 1 {
		t.Errorf("%v reused refresh tokens counted, want 1", got)
	}
}

func refreshes(t *testing.T, registry *prometheus.Registry, outcome string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "outlay_query_refreshes_total" && metric.GetLabel()[0].GetValue() == outcome {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("outlay_query_refreshes_total{outcome=%q} is not there", outcome)
	return 0
}

// An expired refresh token is of no use.
func TestExpiredRefreshToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var s signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	w.exec(`UPDATE refresh_tokens SET created_at = now() - interval '2 s', expires_at = now() - interval '1 s'`)
	w.refresh(s.RefreshToken).refused(http.StatusUnauthorized)
}

// Signing out ends the sign-in, its tokens included; doing it twice is no error.
func TestLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var s signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	logout := func() *answer {
		return w.send("", http.MethodPost, "/v1/auth/logout", fmt.Sprintf(`{"refresh_token":%q}`, s.RefreshToken))
	}
	if got := w.reads(s.Token); got != http.StatusOK {
		t.Errorf("before the end of the sign-in: %d, want 200", got)
	}
	logout().want(http.StatusNoContent)
	logout().want(http.StatusNoContent)
	w.refresh(s.RefreshToken).refused(http.StatusUnauthorized)
	if got := w.reads(s.Token); got != http.StatusUnauthorized {
		t.Errorf("a token of the ended sign-in reads: %d, want 401", got)
	}
	if got := w.reads(w.alice.token); got != http.StatusOK {
		t.Errorf("another token of the user reads: %d, want 200", got)
	}
	w.send("", http.MethodPost, "/v1/auth/logout", `{}`).refused(http.StatusUnprocessableEntity)
}

// A new password needs the old one, and ends every sign-in.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var s signedIn
	w.login("alice@example.com", password).decode(http.StatusOK, &s)
	change := func(current, next string) *answer {
		return w.send(s.Token, http.MethodPost, "/v1/auth/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, current, next))
	}
	for body, field := range map[[2]string]string{{"wrong", "a new password"}: "current_password", {password, "short"}: "new_password"} {
		refusal := change(body[0], body[1]).refused(http.StatusUnprocessableEntity)
		if refusal.Errors[0].Field != field {
			t.Errorf("%v: %+v, want an error of %s", body, refusal, field)
		}
	}
	change(password, "a new password").want(http.StatusNoContent)
	if got := w.reads(s.Token); got != http.StatusUnauthorized {
		t.Errorf("a token from before reads: %d, want 401", got)
	}
	w.refresh(s.RefreshToken).refused(http.StatusUnauthorized)
	w.login("alice@example.com", password).refused(http.StatusUnauthorized)
	w.login("alice@example.com", "a new password").want(http.StatusOK)
}
