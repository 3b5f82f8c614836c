package query_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

type shownAccount struct {
	ID, Name, Plan, Sharing string
	Limits                  struct {
		Events int64 `json:"events_per_minute"`
	}
}

// Everybody reads the account and an owner changes it, but for the plan, which is the
// operator's. The change is in the audit log and what it says is obeyed.
func TestAccount(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, database(t), func(c *query.Config) {
		c.EventsPerMinute = func(p account.Plan) int64 { return map[account.Plan]int64{account.Enterprise: 7}[p] }
	})
	w.store(w.alice.step("ses_a", 0, nil))
	vera, adam := w.tokenFor(w.alice.colleague("vera@example.org", viewer)), w.tokenFor(w.alice.colleague("adam@example.org", admin))
	patch := func(token, body string) *answer { return w.send(token, http.MethodPatch, "/v1/account", body) }
	want := shownAccount{ID: w.alice.account.Text(schema.AccountPrefix), Name: "Account of alice@example.com", Plan: "enterprise", Sharing: "members"}
	want.Limits.Events = 7
	var got shownAccount
	w.send(vera, http.MethodGet, "/v1/account", "").decode(http.StatusOK, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET /v1/account (-want +got):\n%s", diff)
	}
	for _, token := range []string{vera, adam} {
		patch(token, `{"name":"x"}`).refused(http.StatusForbidden)
	}
	for body, field := range map[string]string{`{"plan":"pro"}`: "plan", `{"sharing":"all"}`: "sharing", `{"name":" "}`: "name", `{"id":"x"}`: "id"} {
		refusal := patch(w.alice.token, body).refused(http.StatusUnprocessableEntity)
		if refusal.Errors[0].Field != field || field == "plan" && !strings.Contains(refusal.Detail, "outlay account plan") {
			t.Errorf("PATCH %s: %+v", body, refusal)
		}
	}
	want.Name, want.Sharing = "New", "admins"
	patch(w.alice.token, `{"name":" New ","sharing":"admins"}`).decode(http.StatusOK, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PATCH /v1/account (-want +got):\n%s", diff)
	}
	w.send(vera, http.MethodGet, "/v1/sessions/a/share", "").refused(http.StatusForbidden)
	if n := w.acts("account.change"); n != 1 {
		t.Errorf("%d lines of account.change in the audit log, want 1", n)
	}
	var other shownAccount
	if w.bob.get("/v1/account").decode(http.StatusOK, &other); other.Name != "Account of bob@example.com" || other.Sharing != "members" {
		t.Errorf("another account: %+v", other)
	}
}
