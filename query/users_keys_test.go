package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

type shownKey struct {
	ID, Name, Hint, Key string
	ExpiresAt           *time.Time `json:"expires_at"`
	RevokedAt           *time.Time `json:"revoked_at"`
	Scopes, Agents      []string
}

func (p *person) post(path, body string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodPost, path, body)
}

// works reports whether ingest would take an API key now.
func (w *world) works(secret string) bool {
	w.t.Helper()
	hash, ok := account.ParseSecret(secret)
	if !ok {
		w.t.Fatalf("%q is not an API key", secret)
	}
	const ask = `SELECT EXISTS (SELECT FROM api_keys WHERE secret_sha256 = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))`
	var works bool
	if err := w.pool.QueryRow(w.t.Context(), ask, hash[:]).Scan(&works); err != nil {
		w.t.Fatal(err)
	}
	return works
}

// A key is shown once, works until it is revoked, and can be replaced with and
// without grace.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var first, second, third shownKey
	w.alice.post("/v1/api-keys", `{"name":" production "}`).decode(http.StatusCreated, &first)
	if first.Name != "production" || !strings.HasSuffix(first.Key, first.Hint) || !w.works(first.Key) {
		t.Errorf("created %+v", first)
	}
	w.alice.post("/v1/api-keys/"+first.ID+"/rotate", `{"grace_seconds":3600}`).decode(http.StatusCreated, &second)
	if second.Name != "production" || second.ID == first.ID || !w.works(first.Key) || !w.works(second.Key) {
		t.Errorf("rotated with grace: %+v, old works %v", second, w.works(first.Key))
	}
	w.alice.post("/v1/api-keys/"+second.ID+"/rotate", "").decode(http.StatusCreated, &third)
	if w.works(second.Key) || !w.works(third.Key) {
		t.Errorf("rotated at once: old works %v, new %v", w.works(second.Key), w.works(third.Key))
	}
	w.alice.post("/v1/api-keys/"+second.ID+"/rotate", "").refused(http.StatusNotFound)
	w.send(w.alice.token, http.MethodDelete, "/v1/api-keys/"+third.ID, "").want(http.StatusNoContent)
	w.send(w.alice.token, http.MethodDelete, "/v1/api-keys/"+third.ID, "").want(http.StatusNoContent)
	if w.works(third.Key) {
		t.Error("a revoked key works")
	}
	answer := w.alice.get("/v1/api-keys")
	var page struct{ Data []shownKey }
	answer.decode(http.StatusOK, &page)
	if len(page.Data) != 3 || page.Data[0].RevokedAt == nil || page.Data[2].ExpiresAt == nil || strings.Contains(string(answer.body), first.Key) {
		t.Errorf("GET /v1/api-keys = %s", answer.body)
	}
	for _, id := range []string{first.ID, "key_x", schema.NewID(w.now).Text(schema.KeyPrefix)} {
		w.bob.post("/v1/api-keys/"+id+"/rotate", "").refused(http.StatusNotFound)
		w.send(w.bob.token, http.MethodDelete, "/v1/api-keys/"+id, "").refused(http.StatusNotFound)
	}
	for body, field := range map[string]string{
		`{}`: "name", `{"name":"  "}`: "name", `{"name":"a\u0000"}`: "name", `{"name":"a","expires_at":"soon"}`: "expires_at",
		`{"name":"a","expires_at":"2020-01-01T00:00:00Z"}`: "expires_at", `{"name":"a","plan":"x"}`: "plan",
	} {
		if refusal := w.alice.post("/v1/api-keys", body).refused(http.StatusUnprocessableEntity); refusal.Errors[0].Field != field {
			t.Errorf("%s: %+v, want an error of %s", body, refusal, field)
		}
	}
	w.alice.post("/v1/api-keys/"+first.ID+"/rotate", `{"grace_seconds":-1}`).refused(http.StatusUnprocessableEntity)
}

type shownUser struct {
	ID, Email, Role string
	DisabledAt      *time.Time `json:"disabled_at"`
}

func (p *person) change(id, body string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodPatch, "/v1/users/"+id, body)
}

// An owner makes and changes users; a change shows at once in what they may do.
func TestUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var carol shownUser
	w.alice.post("/v1/users", `{"email":"carol@example.com","password":"a long password","role":"viewer"}`).decode(http.StatusCreated, &carol)
	var signedIn struct{ Token string }
	w.login("carol@example.com", "a long password").decode(http.StatusOK, &signedIn)
	ask := func(path string) int { return w.send(signedIn.Token, http.MethodGet, path, "").status }
	if got := ask("/v1/api-keys"); got != http.StatusForbidden {
		t.Errorf("a viewer lists keys: %d, want 403", got)
	}
	w.alice.change(carol.ID, `{"role":"admin"}`).want(http.StatusOK)
	if got := ask("/v1/api-keys"); got != http.StatusOK {
		t.Errorf("an admin lists keys: %d, want 200", got)
	}
	w.alice.change(carol.ID, `{"disabled":true}`).want(http.StatusOK)
	if got := ask("/v1/events"); got != http.StatusUnauthorized {
		t.Errorf("a disabled user reads: %d, want 401", got)
	}
	w.login("carol@example.com", "a long password").refused(http.StatusUnauthorized)
	w.alice.change(carol.ID, `{"disabled":false,"password":"another password"}`).want(http.StatusOK)
	w.login("carol@example.com", "another password").want(http.StatusOK)
	if got := ask("/v1/events"); got != http.StatusUnauthorized {
		t.Errorf("a token from before another password reads: %d, want 401", got)
	}

	w.bob.change(carol.ID, `{"role":"owner"}`).refused(http.StatusNotFound)
	w.alice.change("usr_x", `{}`).refused(http.StatusNotFound)
	if refusal := w.alice.post("/v1/users", `{"email":"ALICE@example.com","password":"a long password","role":"viewer"}`).refused(http.StatusConflict); refusal.Title != "Conflict" {
		t.Errorf("%+v", refusal)
	}
	me := w.alice.user.ID.Text(schema.UserPrefix)
	for _, body := range []string{`{"role":"admin"}`, `{"disabled":true}`} {
		w.alice.change(me, body).refused(http.StatusConflict)
	}
	if role := w.alice.meRole(); role != "owner" {
		t.Errorf("the last owner is %s now", role)
	}
	for body, fields := range map[string]int{
		`{"email":"x","password":"short","role":"root"}`: 3, `{}`: 3, `{"email":"a@b.example","password":"a long password"}`: 1,
	} {
		if refusal := w.alice.post("/v1/users", body).refused(http.StatusUnprocessableEntity); len(refusal.Errors) != fields {
			t.Errorf("%s: %+v, want %d errors", body, refusal, fields)
		}
	}
	for path, missing := range map[string][]string{"/v1/users": {"email", "password"}, "/v1/auth/password": {"current_password", "new_password"}, "/v1/auth/login": {"email", "password"}} {
		refusal := w.alice.post(path, `{}`).refused(http.StatusUnprocessableEntity)
		for i, name := range missing {
			if got := refusal.Errors[i]; got.Field != name || got.Message != "is required" {
				t.Errorf("%s without %s: %s %s", path, name, got.Field, got.Message)
			}
		}
	}
	var page struct{ Data []shownUser }
	answer := w.alice.get("/v1/users")
	answer.decode(http.StatusOK, &page)
	if len(page.Data) != 2 || strings.Contains(string(answer.body), "argon2") {
		t.Errorf("GET /v1/users = %s", answer.body)
	}
}

func (p *person) meRole() string {
	p.t.Helper()
	var me struct{ Role string }
	p.get("/v1/auth/me").decode(http.StatusOK, &me)
	return me.Role
}

// Each role may do what it may, and gets 403 for the rest.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	need := map[string]account.Role{
		"GET /v1/api-keys": account.Admin, "POST /v1/api-keys": account.Admin, "POST /v1/api-keys/key_x/rotate": account.Admin,
		"DELETE /v1/api-keys/key_x": account.Admin, "GET /v1/audit": account.Admin, "GET /v1/users": account.Owner,
		"POST /v1/users": account.Owner, "PATCH /v1/users/usr_x": account.Owner, "GET /v1/events": account.Viewer,
		"GET /v1/events/export": account.Viewer, "GET /v1/sessions": account.Viewer, "GET /v1/analytics/summary": account.Viewer,
	}
	for _, role := range []account.Role{account.Viewer, account.Admin, account.Owner} {
		token := w.tokenFor(w.alice.colleague(fmt.Sprintf("%s@example.org", role), role))
		for what, needed := range need {
			method, path, _ := strings.Cut(what, " ")
			got := w.send(token, method, path, "").status
			if forbidden := got == http.StatusForbidden; forbidden == role.Allows(needed) {
				t.Errorf("%s by a %s = %d", what, role, got)
			}
			w.send("", method, path, "").refused(http.StatusUnauthorized)
		}
	}
}

type shownAct struct {
	Email, Action, Target string
	Detail                json.RawMessage
}

// Every administrative act is in the audit log, without any secret; one that
// failed is not.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var key shownKey
	var user shownUser
	w.alice.post("/v1/api-keys", `{"name":"n"}`).decode(http.StatusCreated, &key)
	w.alice.post("/v1/users", `{"email":"carol@example.com","password":"a long password","role":"viewer"}`).decode(http.StatusCreated, &user)
	w.alice.change(user.ID, `{"password":"another password","role":"admin"}`).want(http.StatusOK)
	w.alice.change(w.alice.user.ID.Text(schema.UserPrefix), `{"disabled":true}`).refused(http.StatusConflict)
	w.send(w.alice.token, http.MethodDelete, "/v1/api-keys/"+key.ID, "").want(http.StatusNoContent)
	w.bob.post("/v1/api-keys", `{"name":"bobs"}`).want(http.StatusCreated)
	w.store(w.alice.newEvent(nil))
	w.alice.share("one", "?expires_in=0")
	w.alice.share("one", "?expires_in=0")
	w.send(w.alice.token, http.MethodDelete, "/v1/sessions/one/share", "").want(http.StatusNoContent)

	want := []shownAct{
		{"alice@example.com", "session.unshare", "ses_one", json.RawMessage(`{}`)},
		{"alice@example.com", "session.share", "ses_one", json.RawMessage(`{"expires_at":null,"include_metadata":false}`)},
		{"alice@example.com", "api_key.revoke", key.ID, json.RawMessage(`{}`)},
		{"alice@example.com", "user.change", user.ID, json.RawMessage(`{"password":"changed","role":"admin"}`)},
		{"alice@example.com", "user.create", user.ID, json.RawMessage(`{"email":"carol@example.com","role":"viewer"}`)},
		{"alice@example.com", "api_key.create", key.ID, json.RawMessage(`{"agents":null,"name":"n","scopes":["track"]}`)},
	}
	var got []shownAct
	for query := "?limit=3"; query != ""; {
		var page struct {
			Data       []shownAct
			NextCursor *string `json:"next_cursor"`
		}
		w.alice.get("/v1/audit"+query).decode(http.StatusOK, &page)
		for _, act := range page.Data {
			act.Detail = compacted(t, act.Detail)
			got = append(got, act)
		}
		query = ""
		if page.NextCursor != nil {
			query = "?limit=3&cursor=" + *page.NextCursor
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET /v1/audit (-want +got):\n%s", diff)
	}
	w.alice.get("/v1/audit?cursor=x").refused(http.StatusUnprocessableEntity)
}

// compacted writes JSON in one way, names in order.
func compacted(t *testing.T, text json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
