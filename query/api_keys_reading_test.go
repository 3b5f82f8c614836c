package query_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newKey makes an API key.
func (p *person) newKey(body string) (key shownKey) {
	p.t.Helper()
	p.post("/v1/api-keys", body).decode(http.StatusCreated, &key)
	return key
}

// A key with the scope read is answered wherever a viewer is, and only there; it changes nothing and shows no other account.
func TestReadKeysReadWhatViewersRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	i := w.alice.ids("alices")
	read, both := w.alice.newKey(`{"name":"r","scopes":["read"]}`).Key, w.alice.newKey(`{"name":"b","scopes":["read","track"],"agents":["a*"]}`).Key
	track := w.alice.newKey(`{"name":"t"}`).Key
	for _, e := range endpoints() {
		path := e.at(i) + e.query
		needsUser := e.path == "/v1/sessions/{session}/share" || e.path == "/v1/auth/me"
		switch {
		case e.role == "":
		case e.role == viewer && e.method == http.MethodGet && !needsUser:
			if status := w.send(read, e.method, path, e.body).status; status >= 400 && status != http.StatusNotFound && status != http.StatusConflict {
				t.Errorf("%s %s is answered %d to a key that reads", e.method, path, status)
			} else if head := w.send(read, http.MethodHead, path, "").status; head != status {
				t.Errorf("HEAD %s is answered %d to a key that reads, GET %d", path, head, status)
			}
		default:
			w.send(read, e.method, path, e.body).refused(http.StatusForbidden)
			w.send(both, e.method, path, e.body).refused(http.StatusForbidden)
			if e.method == http.MethodGet {
				w.send(read, http.MethodHead, path, "").want(http.StatusForbidden)
			}
		}
		if e.role != "" {
			w.send(track, e.method, path, e.body).refused(http.StatusUnauthorized)
		}
	}
	w.store(w.alice.newEvent(nil))
	var page eventPage
	w.send(both, http.MethodGet, "/v1/events", "").decode(http.StatusOK, &page)
	if !slices.Contains(page.agents(), "support-bot") {
		t.Errorf("a key that may track a* reads %v, want the whole account", page.agents())
	}
	bobs := w.bob.newKey(`{"name":"r","scopes":["read"]}`).Key
	w.send(bobs, http.MethodGet, "/v1/events", "").decode(http.StatusOK, &page)
	if len(page.Data) != 0 {
		t.Errorf("bob's key reads %v", page.agents())
	}
	w.send(read[:len(read)-1]+"_", http.MethodGet, "/v1/events", "").refused(http.StatusUnauthorized)
}

// A key ends on every replica within a second of being revoked, and keeps what it is for when it is rotated.
func TestReadKeysEndAndRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	old := w.alice.newKey(`{"name":"r","scopes":["read"]}`)
	w.send(old.Key, http.MethodGet, "/v1/agents", "").want(http.StatusOK)
	bound := w.alice.newKey(`{"name":"t","agents":["b-*","a"]}`)
	var rotated shownKey
	w.alice.post("/v1/api-keys/"+bound.ID+"/rotate", "").decode(http.StatusCreated, &rotated)
	if diff := cmp.Diff([]string{"a", "b-*"}, rotated.Agents); diff != "" || len(rotated.Scopes) != 1 || rotated.Scopes[0] != "track" {
		t.Errorf("rotated to %+v", rotated)
	}
	var reading shownKey
	w.alice.post("/v1/api-keys/"+old.ID+"/rotate", "").decode(http.StatusCreated, &reading)
	w.send(reading.Key, http.MethodGet, "/v1/agents", "").want(http.StatusOK)
	revoked := time.Now()
	for w.send(old.Key, http.MethodGet, "/v1/agents", "").status == http.StatusOK {
		if time.Since(revoked) > time.Second {
			t.Fatal("the old key still reads after a second")
		}
	}
	w.send(old.Key, http.MethodGet, "/v1/agents", "").refused(http.StatusUnauthorized)
}

// What a key is for is shown, and kept in the audit log; what makes no sense is refused.
func TestKeysShowWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	key := w.alice.newKey(`{"name":"n","scopes":["read","track"],"agents":[" cafe` + "\u0301" + `-* ","a"]}`)
	want := shownKey{ID: key.ID, Name: "n", Hint: key.Hint, Scopes: []string{"track", "read"}, Agents: []string{"a", "caf\u00e9-*"}}
	w.alice.newKey(`{"name":"default"}`)
	var page struct{ Data []shownKey }
	w.alice.get("/v1/api-keys").decode(http.StatusOK, &page)
	if diff := cmp.Diff(want, page.Data[1]); diff != "" {
		t.Errorf("GET /v1/api-keys (-want +got):\n%s", diff)
	}
	if got := page.Data[0]; got.Agents != nil || len(got.Scopes) != 1 || got.Scopes[0] != "track" {
		t.Errorf("by default a key is for %v of %v", got.Scopes, got.Agents)
	}
	if audit := string(w.alice.get("/v1/audit").body); !strings.Contains(audit, `"scopes":["track","read"]`) || !strings.Contains(audit, "caf\u00e9-*") {
		t.Errorf("GET /v1/audit = %s", audit)
	}
	for body, field := range map[string]string{
		`{"name":"n","scopes":[]}`: "scopes", `{"name":"n","scopes":["write"]}`: "scopes", `{"name":"n","scopes":"read"}`: "scopes",
		`{"name":"n","agents":[]}`: "agents", `{"name":"n","agents":[""]}`: "agents", `{"name":"n","agents":["a\u200b"]}`: "agents",
		`{"name":"n","scopes":["read"],"agents":["a"]}`: "agents", `{"name":"n","agents":"a"}`: "agents",
	} {
		if refusal := w.alice.post("/v1/api-keys", body).refused(http.StatusUnprocessableEntity); refusal.Errors[0].Field != field {
			t.Errorf("%s: %+v, want an error of %s", body, refusal, field)
		}
	}
}
