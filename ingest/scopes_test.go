package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/account"
)

// grant changes what the fixture's key may do.
func (f *fixture) grant(g account.Grant) {
	keys := f.ingest.keys.(testKeys)
	for hash, c := range keys {
		c.Grant = g
		keys[hash] = c
	}
}

// A key with patterns tracks and asks about their agents and no others: alone, in a batch and in spans each event for itself.
func TestKeyBoundToAgents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.grant(account.Grant{Scopes: []account.Scope{account.Track}, Agents: []string{"exact", "support-*"}})
	for agent, status := range map[string]int{
		"support-bot": 200, " exact ": 200, "support-": 200, "support": 403, "Support-bot": 403, "exactly": 403, "s\u0443pport-bot": 403,
	} {
		for _, path := range []string{"/v1/track", "/v1/events", "/v1/budgets/check"} {
			got := f.post(t, path, `{"agent":"`+agent+`"}`)
			if got.status != status || status == http.StatusForbidden && got.body["code"] != "forbidden" {
				t.Errorf("%s of %q: %d %v, want %d", path, agent, got.status, got.body, status)
			}
		}
	}
	got := f.post(t, "/v1/track/batch", `[{"agent":"support-a"},{"agent":"other"},{"agent":"exact","x":null}]`)
	results, _ := got.body["results"].([]any)
	if got.status != http.StatusMultiStatus || len(results) != 3 || results[0].(map[string]any)["tracked"] != true || results[2].(map[string]any)["tracked"] != true {
		t.Fatalf("the batch: %d %v", got.status, got.body)
	}
	if refused := results[1].(map[string]any); refused["title"] != "Forbidden" || refused["code"] != "forbidden" {
		t.Errorf("the other agent in the batch: %v", refused)
	}
	traces := genAI(t, chat("support-a"), chat("other"))
	for contentType, body := range map[string][]byte{"application/json": inJSON(t, traces)} {
		rejected, message := partial(t, f.export(t, contentType, body))
		if rejected != "1" || !strings.Contains(message, "bound to other agents") {
			t.Errorf("spans: %s rejected, %q", rejected, message)
		}
	}
	for _, e := range f.events(t, 2*3+2+1) {
		if e.Agent != "exact" && !strings.HasPrefix(e.Agent, "support-") {
			t.Errorf("recorded an event of %q", e.Agent)
		}
	}
}

// A retry by a key that is bound to other agents is refused, though the event is recorded.
func TestKeyBoundToAgentsSeesNoDuplicate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.post(t, "/v1/track", `{"agent":"other","idempotency_key":"k"}`)
	f.grant(account.Grant{Scopes: []account.Scope{account.Track}, Agents: []string{"support-*"}})
	if got := f.post(t, "/v1/track", `{"agent":"other","idempotency_key":"k"}`); got.status != http.StatusForbidden {
		t.Errorf("%d %v", got.status, got.body)
	}
}

// A key for reading is a good key that may not track.
func TestReadKeyTracksNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.grant(account.Grant{Scopes: []account.Scope{account.Read}})
	for _, path := range []string{"/v1/track", "/v1/events", "/v1/track/batch", "/v1/budgets/check"} {
		if got := f.post(t, path, `{"agent":"a"}`); got.status != http.StatusForbidden || !strings.Contains(got.body["detail"].(string), "track") {
			t.Errorf("%s: %d %v", path, got.status, got.body)
		}
	}
	if got := f.export(t, "application/json", inJSON(t, genAI(t, chat("a")))); got.status != http.StatusForbidden || statusCode(t, got) != 7 {
		t.Errorf("/v1/traces: %d %s", got.status, got.body)
	}
	f.grant(account.Grant{Scopes: []account.Scope{account.Track, account.Read}})
	if got := f.post(t, "/v1/track", `{"agent":"a"}`); got.status != http.StatusOK {
		t.Errorf("with both scopes: %d %v", got.status, got.body)
	}
}
