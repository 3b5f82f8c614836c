package erasure

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// populate stores a month of three sessions, of two users together, and of events without a session, and shares each session.
func (p *person) populate() (tokens map[string]string) {
	p.t.Helper()
	const day = 24 * time.Hour
	var events []schema.Event
	for i := range 12 {
		age := time.Duration(i) * 3 * day
		events = append(events,
			p.event(10*i, "hush", "jane", age), p.event(10*i+1, "jane alone", "jane", age), p.event(10*i+2, "together", "jane", age),
			p.event(10*i+3, "together", "bob", age), p.event(10*i+4, "bob alone", "bob", age), p.event(10*i+5, "", "jane", age))
	}
	p.store(events[:40]...)
	p.foldAndRefresh()
	p.store(events[40:]...)
	p.refresh()
	tokens = map[string]string{}
	for _, session := range []string{"hush", "jane%20alone", "together", "bob%20alone"} {
		var share struct{ Token string }
		if err := json.Unmarshal(p.ask(http.MethodGet, "/v1/sessions/"+session+"/share?include_metadata=true", http.StatusOK), &share); err != nil {
			p.t.Fatal(err)
		}
		tokens[session] = share.Token
	}
	return tokens
}

// The content of a session goes from everywhere, its link ends, and no figure of any endpoint changes. Another account's session
// of the same name and content stays as it is.
func TestEraseSession(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		h := newHouse(t, db)
		alice, eve := h.person("alice"), h.person("eve")
		eve.populate() // And with it everything is folded; of Alice's sessions parts are left.
		tokens := alice.populate()
		h.completeNow()
		before, strange := alice.figures(), eve.rowsWith("hush", alice)
		for _, table := range []string{"events", "sessions", "session_parts", "session_shares", "audit_log"} {
			if alice.rowsWith("hush", eve)[table] == 0 {
				t.Errorf("nothing of the session is in %s to begin with", table)
			}
		}

		asked := alice.erase("/v1/sessions/hush")
		alice.ask(http.MethodGet, "/v1/share/"+tokens["hush"], http.StatusNotFound)
		done := alice.await(asked.ID)
		if found := alice.rowsWith("hush", eve); len(found) > 0 {
			t.Errorf("content is left: %v", found)
		}
		if diff := cmp.Diff(before, alice.figures()); diff != "" {
			t.Errorf("figures changed (-before +after):\n%.3000s", diff)
		}
		if done.Result.Events != 12 || done.Result.Sessions != 1 || !strings.HasPrefix(done.Result.SessionID, "ses_erased_") {
			t.Errorf("result = %+v", done.Result)
		}
		timeline := alice.get("/v1/sessions/" + done.Result.SessionID).(map[string]any)
		if n := len(timeline["steps"].([]any)); n != 12 {
			t.Errorf("%d steps under the new name, want 12", n)
		}
		alice.ask(http.MethodGet, "/v1/sessions/hush", http.StatusNotFound)
		alice.ask(http.MethodDelete, "/v1/sessions/hush", http.StatusNotFound)
		if audit := string(alice.ask(http.MethodGet, "/v1/audit", http.StatusOK)); !strings.Contains(audit, `"session.erase","target":"`+done.Result.SessionID) {
			t.Errorf("the audit log does not tell: %s", audit)
		}
		if diff := cmp.Diff(strange, eve.rowsWith("hush", alice)); diff != "" {
			t.Errorf("another account's content changed:\n%s", diff)
		}
		h.foldAndRefresh()
		if diff := cmp.Diff(before, alice.figures()); diff != "" {
			t.Errorf("figures changed once sums were computed again (-before +after):\n%.3000s", diff)
		}

		// What comes later under the name is a new session.
		h.store(alice.event(500, "hush", "jane", 0))
		if session := alice.get("/v1/sessions/hush").(map[string]any); session["events"] != json.Number("1") {
			t.Errorf("a session that began anew has %v events, want 1", session["events"])
		}
	})
}

// A user goes from everywhere, with the sessions in which nobody else took part. Of others the user's own events are erased, and
// the others' stay.
func TestEraseUser(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		h := newHouse(t, db)
		alice, eve := h.person("alice"), h.person("eve")
		eve.populate() // And with it everything is folded; of Alice's sessions parts are left.
		tokens := alice.populate()
		h.completeNow()
		before, bobs, strange := alice.figures(), alice.rowsWith("said by bob", eve), eve.rowsWith("jane", alice)
		done := alice.await(alice.erase("/v1/end-users/jane").ID)
		for _, text := range []string{"jane", "hush"} {
			if found := alice.rowsWith(text, eve); len(found) > 0 {
				t.Errorf("%q is left: %v", text, found)
			}
		}
		if diff := cmp.Diff(before, alice.figures()); diff != "" {
			t.Errorf("figures changed (-before +after):\n%.3000s", diff)
		}
		if done.Result.Events != 48 || done.Result.Sessions != 15 || done.Result.SessionID != "" {
			t.Errorf("result = %+v, want 48 events of 15 sessions", done.Result)
		}
		if diff := cmp.Diff(bobs, alice.rowsWith("said by bob", eve)); diff != "" {
			t.Errorf("another user's content changed:\n%s", diff)
		}
		together := alice.get("/v1/sessions/together").(map[string]any)
		if n := len(together["steps"].([]any)); n != 24 {
			t.Errorf("%d steps of the session of two, want 24", n)
		}
		for session, status := range map[string]int{"hush": 404, "jane%20alone": 404, "together": 404, "bob%20alone": 200} {
			alice.ask(http.MethodGet, "/v1/share/"+tokens[session], status)
		}
		if diff := cmp.Diff(strange, eve.rowsWith("jane", alice)); diff != "" {
			t.Errorf("another account's content changed:\n%s", diff)
		}
		h.foldAndRefresh()
		if diff := cmp.Diff(before, alice.figures()); diff != "" {
			t.Errorf("figures changed once sums were computed again (-before +after):\n%.3000s", diff)
		}
		if again := alice.await(alice.erase("/v1/end-users/jane").ID); again.Result.Events != 0 {
			t.Errorf("a second erasure found %d events", again.Result.Events)
		}
		if found := alice.rowsWith("jane", eve); len(found) > 0 {
			t.Errorf("the second erasure left %v", found)
		}
	})
}

// What was accepted before the erasure was asked for and is stored later is erased too.
func TestEraseWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, schematest.Database(t))
	alice := h.person("alice")
	h.store(alice.event(1, "hush", "jane", time.Minute))
	h.exec(`UPDATE kafka_offsets SET complete_until = now() - interval '1 minute'`)
	asked := alice.erase("/v1/sessions/hush")
	for j := asked; j.State == "queued"; {
		time.Sleep(20 * time.Millisecond)
		if err := json.Unmarshal(alice.ask(http.MethodGet, "/v1/jobs/"+asked.ID, http.StatusOK), &j); err != nil {
			t.Fatal(err)
		}
	}
	h.store(alice.event(2, "hush", "jane", time.Minute))
	h.completeNow()
	if done := alice.await(asked.ID); done.Result.Events != 2 {
		t.Errorf("%d events erased, want 2", done.Result.Events)
	}
	if found := alice.rowsWith("hush"); len(found) > 0 {
		t.Errorf("content is left: %v", found)
	}
}
