package ingest

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// Names are recorded in normal form, however the client encodes their letters and by whichever endpoint they come. Other
// texts stay as they are.
func TestNamesAreNormalised(t *testing.T) {
	t.Parallel()
	const decomposed = `"agent":" cafe` + "\u0301" + `","model":"mode` + "\u0300" + `le","provider":"e` + "\u0301" + `lan","user_id":"A` + "\u030a" +
		`","tags":["a","u` + "\u0308" + `"],"step":"o` + "\u0302" + `","session_id":"n` + "\u0303" + `","error_type":"e` + "\u0301" + `"`
	type names struct{ Agent, Model, Provider, User, Tag, Step, Session, ErrorType string }
	want := names{"caf\u00e9", "mod\u00e8le", "\u00e9lan", "\u00c5", "\u00fc", "\u00f4", "ses_\u00f1", "e\u0301"}
	f := newFixture(t, nil)
	for path, body := range map[string]string{
		"/v1/track":       "{" + decomposed + "}",
		"/v1/events":      "{" + decomposed + `,"x":null}`,
		"/v1/track/batch": "[{" + decomposed + "}]",
	} {
		if got := f.post(t, path, body); got.status != http.StatusOK {
			t.Fatalf("%s: %d %v", path, got.status, got.body)
		}
	}
	for _, e := range f.events(t, 3) {
		got := names{e.Agent, e.Model, e.Provider, e.UserID, e.Tags[1], e.Step, e.SessionID, e.ErrorType}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	}
}

// So are those of spans, in both encodings.
func TestNamesOfSpansAreNormalised(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	attributes := chat("cafe\u0301")
	attributes["gen_ai.conversation.id"] = "n\u0303"
	one := genAI(t, attributes)
	if got := f.export(t, "application/json", inJSON(t, one)); got.status != http.StatusOK {
		t.Fatal(got.status)
	}
	one.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetSpanID([8]byte{9})
	if got := f.export(t, "application/x-protobuf", inProto(t, one)); got.status != http.StatusOK {
		t.Fatal(got.status)
	}
	for _, e := range f.events(t, 2) {
		if e.Agent != "caf\u00e9" || e.SessionID != "ses_\u00f1" {
			t.Errorf("recorded %+q in %+q", e.Agent, e.SessionID)
		}
	}
}

// Every name is refused with characters that nobody sees, with the field and the character named.
func TestHiddenCharactersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, name := range []string{"model", "provider", "user_id", "step", "session_id", "tags"} {
		value := `"a` + "\u200d" + `b"`
		if name == "tags" {
			value = "[" + value + "]"
		}
		got := f.post(t, "/v1/track", field(name, value))
		faults, _ := got.body["errors"].([]any)
		if got.status != http.StatusUnprocessableEntity || len(faults) != 1 || faults[0].(map[string]any)["field"] != name {
			t.Errorf("%s: %d %v", name, got.status, got.body)
		}
	}
	for _, name := range []string{"error_type", "idempotency_key"} {
		if got := f.post(t, "/v1/track", field(name, `"a`+"\u200d"+`b"`)); got.status != http.StatusOK {
			t.Errorf("%s: %d %v", name, got.status, got.body)
		}
	}
	if got := f.post(t, "/v1/budgets/check", `{"agent":"a`+"\u200d"+`b"}`); got.status != http.StatusUnprocessableEntity {
		t.Errorf("budgets/check: %d %v", got.status, got.body)
	}
}

// Whoever asks before spending is answered about the agent that would be charged.
func TestCheckNormalisesTheAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ingest.caps = someCaps{standings: map[string]lease.Standing{"caf\u00e9": standing(dollar, 0, budget.Allow)}}
	if got := f.post(t, "/v1/budgets/check", `{"agent":"cafe`+"\u0301"+`"}`); got.status != http.StatusOK || got.body["allowed"] != false {
		t.Errorf("%d %v, want the cap of the agent in normal form", got.status, got.body)
	}
}

// A retry that encodes a name otherwise is the same event.
func TestRetryWithOtherEncodingIsTheSameEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.post(t, "/v1/track", `{"agent":"caf`+"\u00e9"+`","idempotency_key":"k"}`)
	again := f.post(t, "/v1/track", `{"agent":"cafe`+"\u0301"+`","idempotency_key":"k"}`)
	if again.status != http.StatusOK || again.body["duplicate"] != true || again.body["event_id"] != first.body["event_id"] {
		t.Errorf("%d %v, want the event of %v", again.status, again.body, first.body)
	}
}

// judgeNames holds that the names of an accepted event are normalised and seen.
func judgeNames(t *testing.T, e *schema.Event) {
	t.Helper()
	for _, name := range append([]string{e.Agent, e.Model, e.Provider, e.SessionID, e.Step, e.UserID}, e.Tags...) {
		if fault := schema.NameFault(name, 260); fault != "" || schema.NormalName(name) != name {
			t.Errorf("accepted name %+q %s", name, fault)
		}
	}
}
