package query_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema/account"
)

// setSharing is what an owner does with PATCH /v1/account.
func (p *person) setSharing(sharing account.Sharing) {
	p.t.Helper()
	p.exec(`UPDATE accounts SET sharing = $2 WHERE id = $1`, p.account, sharing)
}

// The account says who shares sessions. What shows more than a session, or for ever, needs
// an admin; a link is removed by who made it or an admin.
func TestSharingIsTheAccountsToAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.step("ses_a", 0, nil))
	vera, victor := w.tokenFor(w.alice.colleague("vera@example.org", viewer)), w.tokenFor(w.alice.colleague("victor@example.org", viewer))
	adam := w.tokenFor(w.alice.colleague("adam@example.org", admin))
	const path = "/v1/sessions/a/share"
	get := func(token, query string) *answer { return w.send(token, http.MethodGet, path+query, "") }
	remove := func(token string) *answer { return w.send(token, http.MethodDelete, path, "") }

	for _, query := range []string{"?include_metadata=true", "?expires_in=0", "?expires_in=0&include_metadata=false"} {
		get(vera, query).refused(http.StatusForbidden)
	}
	var link shownShare
	get(vera, "?expires_in=60").decode(http.StatusOK, &link)
	if remove(victor).refused(http.StatusForbidden); w.send("", http.MethodGet, "/v1/share/"+link.Token, "").status != http.StatusOK {
		t.Error("a link ended by who may not end it")
	}
	remove(vera).want(http.StatusNoContent)
	get(victor, "").want(http.StatusOK)
	remove(adam).want(http.StatusNoContent)
	get(adam, "?include_metadata=true&expires_in=0").decode(http.StatusOK, &link)
	remove(vera).refused(http.StatusForbidden)

	w.alice.setSharing(account.SharingAdmins)
	get(vera, "").refused(http.StatusForbidden)
	get(adam, "").want(http.StatusOK)
	w.send("", http.MethodGet, "/v1/share/"+link.Token, "").want(http.StatusOK)

	w.alice.setSharing(account.SharingOff)
	for _, token := range []string{vera, adam, w.alice.token} {
		get(token, "").refused(http.StatusForbidden)
	}
	for _, page := range []string{"/v1/share/", "/share/"} {
		w.send("", http.MethodGet, page+link.Token, "").refused(http.StatusNotFound)
	}
	remove(vera).refused(http.StatusForbidden)
	remove(adam).want(http.StatusNoContent)
}

// The address of a link never comes from the client.
func TestShareLinksDoNotRepeatTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.store(w.alice.step("ses_a", 0, nil))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/sessions/a/share", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.alice.token)
	request.Header.Set("X-Forwarded-Host", "evil.example")
	request.Host = "evil.example"
	var link shownShare
	answer := w.do(request)
	answer.decode(http.StatusOK, &link)
	if link.URL != "/share/"+link.Token || strings.Contains(string(answer.body), "evil") {
		t.Errorf("link %s", answer.body)
	}
}

// A link whose signing key is gone works on, cannot be shown again, and is not replaced
// without being asked.
func TestShareLinkOfAFormerKeyIsAConflict(t *testing.T) {
	t.Parallel()
	pool := database(t)
	w := newWorld(t, pool)
	w.store(w.alice.step("ses_a", 0, nil))
	link := w.alice.share("a", "")
	after := newServer(t, pool, func(*query.Config) {})
	token := after.tokenFor(account.User{ID: w.alice.user.ID, AccountID: w.alice.account, Role: owner})
	after.send(token, http.MethodGet, "/v1/sessions/a/share", "").refused(http.StatusConflict)
	after.send("", http.MethodGet, "/v1/share/"+link.Token, "").want(http.StatusOK)
	after.send(token, http.MethodDelete, "/v1/sessions/a/share", "").want(http.StatusNoContent)
	after.send(token, http.MethodGet, "/v1/sessions/a/share", "").want(http.StatusOK)
}
