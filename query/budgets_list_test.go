package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

type budgetPage struct {
	Data       []shownBudget
	NextCursor *string `json:"next_cursor"`
}

func (p *person) budgets(query string) budgetPage {
	p.t.Helper()
	var page budgetPage
	p.get("/v1/budgets"+query).decode(http.StatusOK, &page)
	return page
}

// All caps are listed once, page by page, the account's own first, each as it is
// shown alone.
func TestBudgetsAreListedInPages(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		agents := []string{"", "A", "B/2", "a", "b", "ä"}
		for i, agent := range agents {
			w.alice.put(budgetPath(agent), fmt.Sprintf(`{"limit_usd":%d,"period":"total"}`, i)).want(http.StatusOK)
			w.alice.refuse(agent+"!", w.now, 1, 1) // An agent without a cap.
		}
		w.alice.spend("a", 1)
		w.alice.refuse("a", w.now, 2, 20)
		var got []string
		for cursor := ""; ; {
			page := w.alice.budgets("?limit=2" + cursor)
			for _, b := range page.Data {
				name := ""
				if b.Agent != nil {
					name = *b.Agent
				}
				got = append(got, name)
				if diff := cmp.Diff(w.alice.get(budgetPath(name)).budget(), b); diff != "" {
					t.Errorf("%q alone and in the list (-alone +list):\n%s", name, diff)
				}
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if diff := cmp.Diff(agents, got); diff != "" {
			t.Errorf("agents (-want +got):\n%s", diff)
		}
		w.alice.get("/v1/budgets?cursor=x").refused(http.StatusUnprocessableEntity)
		w.alice.get("/v1/budgets?limit=0").refused(http.StatusUnprocessableEntity)
	})
}

// An agent shows its cap, and what was refused of it in the time asked about.
func TestAgentsShowBudgets(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		w.store(w.alice.newEvent(nil), w.alice.newEvent(func(e *schema.Event) { e.Agent = "free" }))
		w.alice.put(budgetPath("support-bot"), `{"limit_usd":1,"period":"total"}`).want(http.StatusOK)
		w.alice.put(budgetPath(""), `{"limit_usd":9,"period":"total"}`).want(http.StatusOK)
		w.alice.spend("support-bot", 250_000_000)
		w.alice.refuse("support-bot", w.now.Add(-time.Minute), 4, 44)
		w.alice.refuse("support-bot", w.now.Add(-50*24*time.Hour), 1, 1)
		type shown struct {
			Name    string
			Refused int64       `json:"refused_events"`
			Cost    json.Number `json:"refused_cost_usd"`
			Budget  *shownBudget
		}
		alone := w.alice.get(budgetPath("support-bot")).budget()
		want := []shown{{"free", 0, "0", nil}, {"support-bot", 4, "0.000000044", &alone}}
		var page struct{ Data []shown }
		w.alice.get("/v1/agents?sort=name").decode(http.StatusOK, &page)
		if diff := cmp.Diff(want, page.Data); diff != "" {
			t.Errorf("GET /v1/agents (-want +got):\n%s", diff)
		}
		for _, one := range want {
			var got shown
			w.alice.get("/v1/agents/"+one.Name).decode(http.StatusOK, &got)
			if diff := cmp.Diff(one, got); diff != "" {
				t.Errorf("GET /v1/agents/%s (-want +got):\n%s", one.Name, diff)
			}
		}
		if alone.figures() != "limit 1 spent 0.25 remaining 0.75 used 0.25 refused 5 0.000000045" {
			t.Errorf("the cap: %s", alone.figures())
		}
	})
}

// Every change of a cap is in the audit log, with what was asked for; a refused one
// is not.
func TestBudgetChangesAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	w.alice.put(budgetPath("bot"), `{"limit_usd":1.5,"period":"day","alert_at":[0.5]}`).want(http.StatusOK)
	w.alice.put(budgetPath("bot"), `{"limit_usd":-1,"period":"day"}`).want(http.StatusUnprocessableEntity)
	w.alice.post(budgetPath("bot")+"/reset", "").want(http.StatusOK)
	w.alice.remove(budgetPath("bot")).want(http.StatusNoContent)
	w.alice.remove(budgetPath("bot")).want(http.StatusNotFound)
	w.alice.put(budgetPath(""), `{"limit_usd":0,"period":"total"}`).want(http.StatusOK)
	type act struct {
		Action, Target string
		Detail         map[string]any
	}
	var page struct{ Data []act }
	w.alice.get("/v1/audit").decode(http.StatusOK, &page)
	detail := func(limit json.Number, period string, alertAt ...any) map[string]any {
		if alertAt == nil {
			alertAt = []any{}
		}
		return map[string]any{"limit_usd": limit, "period": period, "alert_at": alertAt, "timezone": "UTC", "on_unpriced": "allow"}
	}
	want := []act{
		{"budget.set", w.alice.account.Text(schema.AccountPrefix), detail("0", "total")},
		{"budget.remove", "bot", map[string]any{}},
		{"budget.reset", "bot", map[string]any{}},
		{"budget.set", "bot", detail("1.5", "day", json.Number("0.5"))},
	}
	if diff := cmp.Diff(want, page.Data); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}
