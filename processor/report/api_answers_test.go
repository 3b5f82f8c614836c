package report

import (
	"cmp"
	"encoding/json"
	"math/big"
	"net/url"
	"time"
)

// answers is what the API states about a question, each by the key that the documents have it under.
type answers struct {
	total, previous        figures
	agents, models, before map[string]figures // before: the agents in the period before
	days                   map[string]figures // nil where the API counts other days
}

// named is one row of an answer.
type named struct {
	Name, Model, Provider, Bucket string
	figures
}

func (a *api) answers(q *question) answers {
	a.t.Helper()
	if len(q.agents) > 0 {
		return a.answersOfAgents(q)
	}
	from, to := a.span(q)
	var summary struct {
		Totals    figures
		Previous  struct{ Totals figures }
		TopModels []named `json:"top_models"`
	}
	a.get("/v1/analytics/summary?"+spanOf(from, to), &summary)
	var days struct{ Data []named }
	a.get("/v1/analytics/daily?timezone="+url.QueryEscape(cmp.Or(q.zone, "UTC"))+"&"+spanOf(from, to), &days)
	r := answers{
		total: summary.Totals, previous: summary.Previous.Totals, models: map[string]figures{}, days: map[string]figures{},
		agents: a.listAgents(from, to), before: a.listAgents(from.Add(from.Sub(to)), from),
	}
	if len(summary.TopModels) == 10 {
		a.t.Fatal("the question has more models than the summary names")
	}
	for _, m := range summary.TopModels {
		r.models[m.Model+"\x00"+m.Provider] = m.figures
	}
	for _, d := range days.Data {
		start, err := time.Parse(time.RFC3339, d.Bucket)
		if err != nil {
			a.t.Fatal(err)
		}
		r.days[start.In(a.location(q)).Format(time.DateOnly)] = d.figures
	}
	return r
}

// answersOfAgents adds up what the API states about each agent.
func (a *api) answersOfAgents(q *question) answers {
	a.t.Helper()
	from, to := a.span(q)
	r := answers{agents: map[string]figures{}, before: map[string]figures{}, models: map[string]figures{}}
	for _, name := range q.agents {
		var now, before struct {
			figures
			ByModel []named `json:"by_model"`
		}
		a.get("/v1/agents/"+url.PathEscape(name)+"?"+spanOf(from, to), &now)
		a.get("/v1/agents/"+url.PathEscape(name)+"?"+spanOf(from.Add(from.Sub(to)), from), &before)
		r.agents[name], r.before[name] = now.figures, before.figures
		r.total, r.previous = r.total.plus(now.figures), r.previous.plus(before.figures)
		for _, m := range now.ByModel {
			r.models[m.Model] = r.models[m.Model].plus(m.figures)
		}
	}
	return r
}

// listAgents reads all pages of the list.
func (a *api) listAgents(from, to time.Time) map[string]figures {
	a.t.Helper()
	all := map[string]figures{}
	for path := "/v1/agents?limit=25&" + spanOf(from, to); path != ""; {
		var page struct {
			Data []named
			Next *string `json:"next_cursor"`
		}
		a.get(path, &page)
		for _, row := range page.Data {
			all[row.Name] = row.figures
		}
		if path = ""; page.Next != nil {
			path = "/v1/agents?limit=25&" + spanOf(from, to) + "&cursor=" + *page.Next
		}
	}
	return all
}

func spanOf(from, to time.Time) string {
	return url.Values{"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}}.Encode()
}

func (a *api) location(q *question) *time.Location {
	a.t.Helper()
	loc, err := time.LoadLocation(q.zone)
	if err != nil {
		a.t.Fatal(err)
	}
	return loc
}

// span is the question's period.
func (a *api) span(q *question) (from, to time.Time) {
	a.t.Helper()
	parse := func(text string) time.Time {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t, err = time.ParseInLocation(time.DateOnly, text, a.location(q))
		}
		if err != nil {
			a.t.Fatal(err)
		}
		return t.UTC()
	}
	return parse(q.from), parse(q.to)
}

// plus adds figures exactly.
func (f figures) plus(g figures) figures {
	for sum, n := range map[*json.Number]json.Number{
		&f.Events: g.Events, &f.Errors: g.Errors, &f.Unpriced: g.Unpriced, &f.InputTokens: g.InputTokens, &f.OutputTokens: g.OutputTokens, &f.Cost: g.Cost,
	} {
		x, y := decimal(*sum), decimal(n)
		x.Add(x, y)
		digits, _ := x.FloatPrec()
		*sum = json.Number(x.FloatString(digits))
	}
	return f
}

func decimal(n json.Number) *big.Rat {
	if n == "" {
		n = "0"
	}
	x, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic("BUG: not a number: " + n)
	}
	return x
}

func whole(n json.Number) string { return decimal(n).FloatString(0) }

// dollarsOf rounds what the API states to the cent, by other means than the document does.
func dollarsOf(n json.Number) string {
	x := decimal(n)
	if text := x.FloatString(2); text != "0.00" || x.Sign() == 0 {
		return "$" + text
	}
	return "<$0.01"
}
