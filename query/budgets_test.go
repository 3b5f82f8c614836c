package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
)

// shownBudget is what tests look at of a cap; amounts keep all their digits.
type shownBudget struct {
	Agent         *string
	Limit         json.Number `json:"limit_usd"`
	Spent         json.Number `json:"spent_usd"`
	Remaining     json.Number `json:"remaining_usd"`
	Used          json.Number
	Period        string
	Timezone      string
	AlertAt       []json.Number `json:"alert_at"`
	OnUnpriced    string        `json:"on_unpriced"`
	PeriodStart   *time.Time    `json:"period_start"`
	ResetsAt      *time.Time    `json:"resets_at"`
	ResetAt       *time.Time    `json:"reset_at"`
	ResetBy       string        `json:"reset_by"`
	Projected     *json.Number  `json:"projected_usd"`
	RefusedEvents int64         `json:"refused_events"`
	RefusedCost   json.Number   `json:"refused_cost_usd"`
}

// figures are the amounts of a cap in one line.
func (b shownBudget) figures() string {
	return fmt.Sprintf("limit %s spent %s remaining %s used %s refused %d %s",
		b.Limit, b.Spent, b.Remaining, b.Used, b.RefusedEvents, b.RefusedCost)
}

func budgetPath(agent string) string {
	if agent == "" {
		return "/v1/account/budget"
	}
	return "/v1/agents/" + url.PathEscape(agent) + "/budget"
}

func (p *person) put(path, body string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodPut, path, body)
}

func (p *person) remove(path string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodDelete, path, "")
}

// budget fails the test unless the answer is a cap.
func (a *answer) budget() (b shownBudget) {
	a.t.Helper()
	a.decode(http.StatusOK, &b)
	return b
}

// spend notes the cost of stored events that arrived just now, as the processor does.
func (p *person) spend(agent string, nano int64) {
	p.t.Helper()
	for _, name := range []string{agent, ""} {
		p.exec(`INSERT INTO spend AS s VALUES ($1, $2, $3, $4, 1) ON CONFLICT (account_id, agent, bucket)
			DO UPDATE SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + 1`,
			p.account, name, p.now.Truncate(15*time.Minute), nano)
	}
}

// refuse notes events that were refused at a time.
func (p *person) refuse(agent string, at time.Time, events, nano int64) {
	p.t.Helper()
	p.exec(`INSERT INTO refused_events VALUES ($1, $2, 'm', 'p', $3, $4, 0, 0, $5)`,
		p.account, agent, at.UTC().Truncate(15*time.Minute), events, nano)
}

// A cap can be set before its agent was ever seen, is shown with all its figures to
// the last nano-dollar, raised, lowered, and removed; the account's is another.
func TestBudgetsComeAndGo(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		for _, agent := range []string{"new-bot", ""} {
			path := budgetPath(agent)
			w.alice.get(path).refused(http.StatusNotFound)
			w.alice.remove(path).refused(http.StatusNotFound)
			w.alice.post(path+"/reset", "").refused(http.StatusNotFound)
			got := w.alice.put(path, `{"limit_usd":50.000000001,"period":"total"}`).budget()
			want := shownBudget{
				Limit: "50.000000001", Spent: "0", Remaining: "50.000000001", Used: "0", Period: "total",
				Timezone: "UTC", AlertAt: []json.Number{}, OnUnpriced: "allow", RefusedCost: "0",
			}
			if agent != "" {
				want.Agent = &agent
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("PUT %s (-want +got):\n%s", path, diff)
			}
			if diff := cmp.Diff(want, w.alice.get(path).budget()); diff != "" {
				t.Errorf("GET %s (-want +got):\n%s", path, diff)
			}
		}
		w.alice.spend("new-bot", 12_500_000_001)
		w.alice.spend("other", 1)
		w.alice.refuse("new-bot", w.now, 3, 9_000_000)
		w.alice.refuse("other", w.now, 1, 1)
		for agent, want := range map[string]string{
			"new-bot": "limit 50.000000001 spent 12.500000001 remaining 37.5 used 0.25 refused 3 0.009",
			"":        "limit 50.000000001 spent 12.500000002 remaining 37.499999999 used 0.25 refused 4 0.009000001",
		} {
			if got := w.alice.get(budgetPath(agent)).budget().figures(); got != want {
				t.Errorf("%q: %s, want %s", agent, got, want)
			}
		}
		full := `{"limit_usd":1e1,"period":"month","alert_at":[1,0.5,1,0.25],"timezone":"Asia/Kolkata","on_unpriced":"deny"}`
		got := w.alice.put(budgetPath("new-bot"), full).budget()
		window := (&budget.Budget{Period: budget.Month, Timezone: "Asia/Kolkata"}).Window(time.Now())
		if got.figures() != "limit 10 spent 12.500000001 remaining 0 used 1.25 refused 3 0.009" || got.OnUnpriced != "deny" ||
			got.Timezone != "Asia/Kolkata" || !got.PeriodStart.Equal(window.Start) || !got.ResetsAt.Equal(window.End) || got.Projected == nil {
			t.Errorf("lowered: %+v", got)
		}
		if diff := cmp.Diff([]json.Number{"0.25", "0.5", "1"}, got.AlertAt); diff != "" {
			t.Errorf("alert_at (-want +got):\n%s", diff)
		}
		w.alice.remove(budgetPath("new-bot")).want(http.StatusNoContent)
		w.alice.get(budgetPath("new-bot")).refused(http.StatusNotFound)
		w.alice.get(budgetPath("")).want(http.StatusOK)
	})
}

// A reset starts again from zero with who and when. What was accepted before and is
// stored later belongs to what was; what comes after counts.
func TestBudgetReset(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		path := budgetPath("bot")
		w.alice.put(path, `{"limit_usd":1,"period":"total"}`).want(http.StatusOK)
		w.alice.spend("bot", 400_000_000)
		before, after := w.alice.lease("bot", 0), w.alice.lease("bot", 1)
		w.alice.use(before, "bot", 300_000_000)
		check := func(step string, got shownBudget, spent, remaining string) {
			t.Helper()
			if got.Spent.String() != spent || got.Remaining.String() != remaining {
				t.Errorf("%s: spent %s, remaining %s, want %s and %s", step, got.Spent, got.Remaining, spent, remaining)
			}
		}
		check("before", w.alice.get(path).budget(), "0.7", "0.3")
		got := w.alice.post(path+"/reset", "").budget()
		check("reset", got, "0", "1")
		if got.ResetAt == nil || time.Since(*got.ResetAt).Abs() > time.Minute || got.ResetBy != w.alice.user.ID.Text(schema.UserPrefix) {
			t.Errorf("reset at %v by %q", got.ResetAt, got.ResetBy)
		}
		w.alice.use(before, "bot", 200_000_000)
		check("stored later", w.alice.get(path).budget(), "0", "1")
		w.alice.use(after, "bot", 150_000_001)
		check("accepted later", w.alice.get(path).budget(), "0.150000001", "0.849999999")
		w.exec(`SELECT drop_leases($1)`, []schema.ID{before})
		check("lease gone", w.alice.get(path).budget(), "0.150000001", "0.849999999")
		check("again", w.alice.post(path+"/reset", "{}").budget(), "0", "1")
		w.alice.spend("bot", 10_000_000)
		w.alice.remove(path).want(http.StatusNoContent)
		w.alice.spend("bot", 5_000_000)
		check("removed and set again", w.alice.put(path, `{"limit_usd":1,"period":"month"}`).budget(), "0.015", "0.985")
		w.alice.post(path+"/reset", `{"to":1}`).refused(http.StatusUnprocessableEntity)
	})
}

// lease makes a lease of a cap as ingest does.
func (p *person) lease(agent string, epoch int) schema.ID {
	p.t.Helper()
	id := schema.NewID(p.now)
	p.exec(`INSERT INTO budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd)
		VALUES ($1, $2, $3, $4, $5, $1, 500000000)`, id, p.account, agent, p.now.Truncate(budget.Bucket), epoch)
	return id
}

// use stores an event that came under a lease, as the processor does.
func (p *person) use(lease schema.ID, agent string, nano int64) {
	p.t.Helper()
	p.exec(`UPDATE budget_leases SET used_nano_usd = used_nano_usd + $2, stored_nano_usd = stored_nano_usd + $2 WHERE lease_id = $1`, lease, nano)
	p.spend(agent, nano)
}

// The name of an agent may hold any character. Spaces around it mean nothing, as in
// tracking, and no name leads to the cap of the account.
func TestBudgetOfAnyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for _, name := range []string{"a/b", "a b", "100%", "%2F", "ä?#&=+;", "c++", "..", "reset", "budget", "日本\U0001F600", strings.Repeat("x", 200)} {
		got := w.alice.put(budgetPath(name), `{"limit_usd":1,"period":"day"}`).budget()
		if got.Agent == nil || *got.Agent != name {
			t.Errorf("%q came back as %v", name, got.Agent)
		}
		w.alice.get(budgetPath(name)).want(http.StatusOK)
		w.alice.post(budgetPath(name)+"/reset", "").want(http.StatusOK)
	}
	if got := w.alice.put("/v1/agents/%20bot%C2%A0/budget", `{"limit_usd":1,"period":"day"}`).budget(); *got.Agent != "bot" {
		t.Errorf("with spaces around it: %q", *got.Agent)
	}
	if got := w.alice.put("/v1/agents/cafe%CC%81/budget", `{"limit_usd":1,"period":"day"}`).budget(); *got.Agent != "caf\u00e9" {
		t.Errorf("with a combining accent: %+q", *got.Agent)
	}
	w.alice.get("/v1/agents/caf%C3%A9/budget").want(http.StatusOK)
	for _, name := range []string{"%20", "%C2%A0", "%00", "a%0Ab", "%FF", "a%E2%80%8Bb", "a%EF%B8%8F", strings.Repeat("x", 201)} {
		path := "/v1/agents/" + name + "/budget"
		if refusal := w.alice.put(path, `{"limit_usd":1,"period":"day"}`).refused(http.StatusUnprocessableEntity); refusal.Errors[0].Field != "name" {
			t.Errorf("PUT %s: %+v, want an error of name", path, refusal)
		}
		w.alice.get(path).refused(http.StatusNotFound)
		w.alice.remove(path).refused(http.StatusNotFound)
		w.alice.post(path+"/reset", "").refused(http.StatusNotFound)
	}
	w.alice.get(budgetPath("")).refused(http.StatusNotFound)
}

// A body that is not a cap is refused, with every field that is wrong, and changes
// nothing.
func TestBadBudgetsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for body, fields := range map[string]string{
		``: "body", `[]`: "body", `null`: "body", `{}`: "limit_usd period",
		`{"limit_usd":1}`:                                                               "period",
		`{"limit_usd":null,"period":"day"}`:                                             "limit_usd",
		`{"limit_usd":"50","period":"day"}`:                                             "limit_usd",
		`{"limit_usd":-0.1,"period":"day"}`:                                             "limit_usd",
		`{"limit_usd":1000000000.000000001,"period":"day"}`:                             "limit_usd",
		`{"limit_usd":1e400,"period":"day"}`:                                            "limit_usd",
		`{"limit_usd":NaN,"period":"day"}`:                                              "body",
		`{"limit_usd":1,"period":"year"}`:                                               "period",
		`{"limit_usd":1,"period":5}`:                                                    "period",
		`{"limit_usd":1,"period":"day","timezone":"Mars/Olympus"}`:                      "timezone",
		`{"limit_usd":1,"period":"day","timezone":"Local"}`:                             "timezone",
		`{"limit_usd":1,"period":"day","alert_at":[0]}`:                                 "alert_at",
		`{"limit_usd":1,"period":"day","alert_at":[1.1]}`:                               "alert_at",
		`{"limit_usd":1,"period":"day","alert_at":0.5}`:                                 "alert_at",
		`{"limit_usd":1,"period":"day","alert_at":[` + strings.Repeat("1,", 10) + `1]}`: "alert_at",
		`{"limit_usd":1,"period":"day","alert_at":["1"]}`:                               "alert_at[0]",
		`{"limit_usd":1,"period":"day","on_unpriced":"maybe"}`:                          "on_unpriced",
		`{"limit_usd":1,"period":"day","limit":2}`:                                      "limit",
		`{"limit_usd":1,"period":"day","Period":"day"}`:                                 "Period",
		`{"limit_usd":-1,"period":"x","timezone":"x","on_unpriced":"x"}`:                "limit_usd period timezone on_unpriced",
		`{"limit_usd":1,"limit_usd":2,"period":"day"}`:                                  "body",
		`{"limit_usd":1,"period":"day","alert_at":[` + strings.Repeat("0.5,", 5) + `0.1,0.2,0.3,0.4,0.6,0.7,0.8,0.9,1,0.95,0.05]}`: "alert_at",
	} {
		for _, path := range []string{budgetPath("bot"), budgetPath("")} {
			var got []string
			for _, f := range w.alice.put(path, body).refused(http.StatusUnprocessableEntity).Errors {
				got = append(got, f.Field)
			}
			if strings.Join(got, " ") != fields {
				t.Errorf("PUT %s %s names %q, want %q", path, body, got, fields)
			}
		}
	}
	w.ask(http.MethodPut, budgetPath("bot"), `x`, "Authorization", "Bearer "+w.alice.token, "Content-Type", "text/csv").refused(415)
	const small = `{"limit_usd":1,"period":"day"}`
	w.ask(http.MethodPut, budgetPath("bot"), small, "Authorization", "Bearer "+w.alice.token, "Content-Type", "application/json; charset=iso-8859-1").refused(415)
	w.ask(http.MethodPut, budgetPath("other"), "\ufeff"+small, "Authorization", "Bearer "+w.alice.token, "Content-Type", "application/json; charset=utf-8").want(200)
	w.ask(http.MethodPut, budgetPath("bot"), strings.Repeat(" ", 70<<10), "Authorization", "Bearer "+w.alice.token).refused(413)
	w.alice.get(budgetPath("bot")).refused(http.StatusNotFound)
	w.alice.get(budgetPath("bot") + "?x=1").refused(http.StatusUnprocessableEntity)
	w.alice.get("/v1/budgets?agent=bot").refused(http.StatusUnprocessableEntity)
}

// A limit is read from its digits: no float comes near it.
func TestBudgetLimitIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	for given, want := range map[string]string{
		"0": "0", "-0": "0", "0.1": "0.1", "1000000000": "1000000000", "1e9": "1000000000", "123456789.123456789": "123456789.123456789",
		"999999999.999999999": "999999999.999999999", "0.0000000005": "0", "0.0000000015": "0.000000002", "5E-1": "0.5",
	} {
		got := w.alice.put(budgetPath("bot"), `{"limit_usd":`+given+`,"period":"total"}`).budget()
		if got.Limit.String() != want || got.Remaining.String() != want {
			t.Errorf("%s: limit %s, remaining %s, want %s", given, got.Limit, got.Remaining, want)
		}
		if used := map[bool]string{true: "1", false: "0"}[want == "0"]; got.Used.String() != used {
			t.Errorf("%s: used %s, want %s", given, got.Used, used)
		}
	}
}

// What was spent and refused is told to the last digit, however much it is.
func TestBudgetShowsMoreThanAnInt64Holds(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		w.alice.put(budgetPath("bot"), `{"limit_usd":1000000000,"period":"total"}`).want(http.StatusOK)
		for range 20 {
			w.alice.spend("bot", 1_000_000_000_000_000_001)
		}
		w.alice.refuse("bot", w.now, 1, 9_000_000_000_000_000_001)
		w.alice.refuse("bot", w.now.Add(-15*time.Minute), 1, 9_000_000_000_000_000_001)
		want := "limit 1000000000 spent 20000000000.00000002 remaining 0 used 20 refused 2 18000000000.000000002"
		if got := w.alice.get(budgetPath("bot")).budget().figures(); got != want {
			t.Errorf("alone: %s, want %s", got, want)
		}
		if got := w.alice.budgets("").Data[0].figures(); got != want {
			t.Errorf("in the list: %s, want %s", got, want)
		}
		if got := w.alice.post(budgetPath("bot")+"/reset", "").budget(); got.Spent != "0" {
			t.Errorf("after a reset %s is spent, want nothing", got.Spent)
		}
	})
}

// Viewers read caps and change none; admins and owners do. Without a token nobody
// does anything.
func TestBudgetRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	admin := w.tokenFor(w.alice.colleague("admin@example.com", account.Admin))
	viewer := w.tokenFor(w.alice.colleague("viewer@example.com", account.Viewer))
	const body = `{"limit_usd":1,"period":"day"}`
	for _, path := range []string{budgetPath("bot"), budgetPath("")} {
		w.send(admin, http.MethodPut, path, body).want(http.StatusOK)
		for _, c := range [][3]string{{http.MethodPut, path, body}, {http.MethodPost, path + "/reset", ""}, {http.MethodDelete, path, ""}} {
			w.send("", c[0], c[1], c[2]).refused(http.StatusUnauthorized)
			if refusal := w.send(viewer, c[0], c[1], c[2]).refused(http.StatusForbidden); refusal.Title != "Forbidden" {
				t.Errorf("%s %s: %+v", c[0], c[1], refusal)
			}
		}
		w.send("", http.MethodGet, path, "").refused(http.StatusUnauthorized)
		w.send(viewer, http.MethodGet, path, "").want(http.StatusOK)
		w.send(admin, http.MethodPost, path+"/reset", "").want(http.StatusOK)
		w.send(admin, http.MethodDelete, path, "").want(http.StatusNoContent)
	}
	w.send(viewer, http.MethodGet, "/v1/budgets", "").want(http.StatusOK)
	w.send("", http.MethodGet, "/v1/budgets", "").refused(http.StatusUnauthorized)
}

// Two accounts with agents of the same name have nothing to do with each other.
func TestBudgetsOfOtherAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.alice.put(budgetPath("bot"), `{"limit_usd":1,"period":"total"}`).want(http.StatusOK)
	w.alice.put(budgetPath(""), `{"limit_usd":2,"period":"total"}`).want(http.StatusOK)
	w.bob.spend("bot", 5_000_000)
	w.bob.refuse("bot", w.now, 7, 7)
	for _, path := range []string{budgetPath("bot"), budgetPath("")} {
		w.bob.get(path).refused(http.StatusNotFound)
		w.bob.remove(path).refused(http.StatusNotFound)
		w.bob.post(path+"/reset", "").refused(http.StatusNotFound)
		if got := w.alice.get(path).budget(); got.Spent != "0" || got.RefusedEvents != 0 || got.ResetAt != nil {
			t.Errorf("%s shows what another account did: %+v", path, got)
		}
	}
	if got := w.bob.budgets("").Data; len(got) != 0 {
		t.Errorf("another account's caps are listed: %+v", got)
	}
	w.bob.put(budgetPath("bot"), `{"limit_usd":3,"period":"total"}`).want(http.StatusOK)
	if got := w.alice.get(budgetPath("bot")).budget().Limit; got != "1" {
		t.Errorf("another account's PUT made the limit %s", got)
	}
}
