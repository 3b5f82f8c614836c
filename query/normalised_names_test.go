package query_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema"
)

// Tracking stores names in normal form, so whoever looks for one finds it however the letters of the question are encoded.
func TestNamesAreFoundInAnyEncoding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	const stored, asked = "caf\u00e9", "cafe\u0301"
	w.store(w.alice.newEvent(func(e *schema.Event) {
		e.Agent, e.Model, e.Provider, e.UserID, e.SessionID, e.Tags = stored, stored, stored, stored, "ses_"+stored, []string{stored}
	}))
	w.materialise()
	for _, name := range []string{"agent", "model", "provider", "user_id", "session_id", "tag", "q"} {
		if got := w.alice.events("?" + name + "=" + url.QueryEscape(asked)).agents(); len(got) != 1 {
			t.Errorf("by %s: %q", name, got)
		}
		hidden := w.alice.get("/v1/events?" + name + "=a%E2%80%8B").refused(http.StatusUnprocessableEntity)
		if len(hidden.Errors) != 1 || !strings.Contains(hidden.Errors[0].Message, "U+200B") {
			t.Errorf("%s with a zero width space: %+v", name, hidden)
		}
	}
	w.alice.get("/v1/agents/" + url.PathEscape(asked)).want(http.StatusOK)
	w.alice.get("/v1/sessions/" + url.PathEscape(asked)).want(http.StatusOK)
	w.alice.get("/v1/agents/a%E2%80%8B").refused(http.StatusNotFound)
	w.alice.get("/v1/sessions/a%E2%80%8B").refused(http.StatusNotFound)
	if got := w.alice.agents("?q=" + url.QueryEscape(asked)).names(); len(got) != 1 {
		t.Errorf("agents: %q", got)
	}
	if got := w.alice.sessions("?user_id=" + url.QueryEscape(asked)); len(got.Data) != 1 {
		t.Errorf("sessions: %v", got)
	}
}

// What names an agent, a model or a provider in a body is normalised and checked as in tracking.
func TestNamesInBodiesAreNormalised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	alert := func(name string) string {
		return `{"name":"n","metric":"cost_usd","agent":"` + name + `","window":"1h","condition":{"type":"above","value":1},"channels":[]}`
	}
	if got := w.alice.newAlert(alert("cafe\u0301")); *got.Agent != "caf\u00e9" {
		t.Errorf("alert of %+q", *got.Agent)
	}
	override := func(name string) string {
		return `{"match":"` + name + `","input_usd_per_mtok":1,"output_usd_per_mtok":1}`
	}
	var made struct{ Match string }
	w.alice.post("/v1/prices/overrides", override("cafe\u0301*")).decode(http.StatusCreated, &made)
	if made.Match != "caf\u00e9*" {
		t.Errorf("override of %+q", made.Match)
	}
	report := func(name string) string {
		return `{"from":"2026-01-01","to":"2026-01-02","agents":["` + name + `"]}`
	}
	var asked struct{ Agents []string }
	w.alice.post("/v1/reports/generate", report("cafe\u0301")).decode(http.StatusAccepted, &asked)
	if asked.Agents[0] != "caf\u00e9" {
		t.Errorf("report of %+q", asked.Agents)
	}
	for path, body := range map[string]string{
		"/v1/alerts": alert("a\u2060"), "/v1/prices/overrides": override("a\u2060"), "/v1/reports/generate": report("a\u2060"),
		"/v1/prices/reprice": `{"from":"2026-01-01","to":"2026-01-02","model":"a` + "\u2060" + `","dry_run":true}`,
	} {
		w.alice.post(path, body).refused(http.StatusUnprocessableEntity)
	}
}
