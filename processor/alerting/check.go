package alerting

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// checkAccount checks the enabled rules of one account.
func (w *Evaluator) checkAccount(ctx context.Context, rules []alert.Rule, at time.Time, complete bool) error {
	incidentsOf, err := w.incidentsOf(ctx, rules, at)
	if err != nil {
		return err
	}
	// Rules of one account often share a window, and then one query.
	seen := map[alert.Window][]sum{}
	var failed error
	results := make([]result, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		was := incidentsOf[r.ID]
		evaluations, err := w.evaluate(ctx, r, was, seen, at)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("check rule %s: %w", r.ID.Text(alert.RulePrefix), err))
			continue
		}
		d := decide(r, evaluations, was, at, complete)
		results = append(results, result{r, d, statusOf(evaluations, was, d, at)})
	}
	return errors.Join(failed, w.apply(ctx, rules[0].AccountID, results, at))
}

// result is what a check of a rule has found: what is to be changed, and the status to show.
type result struct {
	rule *alert.Rule
	decision
	status alert.Status
}

// evaluate returns for each scope of a rule whether its condition holds. seen keeps the sums of a window for the account's other
// rules.
func (w *Evaluator) evaluate(ctx context.Context, r *alert.Rule, was ruleIncidents, seen map[alert.Window][]sum, at time.Time) ([]evaluation, error) {
	if r.Metric == alert.BudgetUsed {
		return w.evaluateCaps(ctx, r)
	}
	from := r.Window.Start(at)
	sums, err := w.window(ctx, r, seen, from, at)
	if err != nil {
		return nil, err
	}
	var past map[string]hours
	if r.Condition == alert.Anomaly {
		if past, err = w.pastOf(ctx, r, from, at); err != nil {
			return nil, err
		}
	}
	list := measure(r, sums, past)
	// An open incident lowers the limit for its own scope only.
	evaluations := make([]evaluation, len(list))
	for i, read := range list {
		if r.Condition == alert.Above {
			evaluations[i] = evaluateAbove(r, read)
			continue
		}
		_, firing := was.open[read.scope]
		evaluations[i] = evaluateAnomaly(r, read, past[read.scope], from, at, firing)
	}
	return evaluations, nil
}

// window reads the sums that a rule is evaluated with. Percentiles cannot be shared between rules, because they do not add up.
func (w *Evaluator) window(ctx context.Context, r *alert.Rule, seen map[alert.Window][]sum, from, to time.Time) ([]sum, error) {
	if r.Metric == alert.LatencyP95 {
		return w.latencies(ctx, r, from, to)
	}
	if sums, ok := seen[r.Window]; ok {
		return sums, nil
	}
	sums, err := w.sums(ctx, r.AccountID, from, to)
	seen[r.Window] = sums
	return sums, err
}

// knownPast is a cache of what a rule is compared with, until its window moves into another hour or the rule is changed.
type knownPast struct {
	// from and to are the hours in which the window begins and ends, changed is when the rule was.
	from, to, changed time.Time
	// past is by agent.
	past map[string]hours
	// used is when the rule was last checked, for forget.
	used time.Time
}

// pastOf reads the past of a rule once an hour.
func (w *Evaluator) pastOf(ctx context.Context, r *alert.Rule, from, to time.Time) (map[string]hours, error) {
	k := w.known[r.ID]
	if !k.from.Equal(from.Truncate(time.Hour)) || !k.to.Equal(to.Truncate(time.Hour)) || !k.changed.Equal(r.UpdatedAt) {
		past, err := w.past(ctx, r, from, to)
		if err != nil {
			return nil, err
		}
		k = knownPast{from: from.Truncate(time.Hour), to: to.Truncate(time.Hour), changed: r.UpdatedAt, past: past}
	}
	k.used = to
	w.known[r.ID] = k
	return k.past, nil
}

// forget drops what was kept for rules that are no longer checked.
func (w *Evaluator) forget(at time.Time) {
	for id, k := range w.known {
		if k.used.Before(at.Add(-time.Hour)) {
			delete(w.known, id)
		}
	}
}

// evaluateCaps evaluates the caps of a rule on budget_used: that of its agent, or each one of the account.
func (w *Evaluator) evaluateCaps(ctx context.Context, r *alert.Rule) ([]evaluation, error) {
	caps, err := w.caps(ctx, r.AccountID, r.Agent)
	if err != nil {
		return nil, err
	}
	evaluations := make([]evaluation, len(caps))
	for i := range caps {
		c := &caps[i]
		evaluations[i] = evaluateAbove(r, measurement{scope: c.Agent, value: c.used(), known: true, events: 1})
	}
	return evaluations, nil
}

// spentCap is a cap and what is spent of it in a period.
type spentCap struct {
	capPeriod
	spent schema.NanoUSD
}

// used is the part of the cap that is spent; all of it when there is nothing to spend.
func (c *spentCap) used() float64 {
	// A cap of nothing is used up by definition, and there is no share of it.
	if c.Limit == 0 {
		return 1
	}
	return float64(c.spent) / float64(c.Limit)
}

// caps reads the caps of an account, or of one agent of it.
func (w *Evaluator) caps(ctx context.Context, accountID schema.ID, agent *string) ([]spentCap, error) {
	store := budget.NewStore(w.pool)
	var budgets []budget.Budget
	var err error
	if agent != nil {
		budgets, err = store.OfAgents(ctx, accountID, []string{*agent})
	} else {
		budgets, err = store.Page(ctx, accountID, nil, maxCaps)
	}
	if err != nil {
		return nil, err
	}
	now, present := w.now(), make([]capPeriod, len(budgets))
	for i := range budgets {
		present[i] = capPeriod{budgets[i], budgets[i].Window(now)}
	}
	return w.spentCaps(ctx, store, accountID, present)
}

// maxCaps bounds how many caps of an account one rule looks at.
const maxCaps = 10_000

// spentCaps reads what is spent of caps of an account in these periods.
func (w *Evaluator) spentCaps(ctx context.Context, store *budget.Store, accountID schema.ID, periods []capPeriod) ([]spentCap, error) {
	if len(periods) == 0 {
		return nil, nil
	}
	agents, windows := make([]string, len(periods)), make([]budget.Window, len(periods))
	for i := range periods {
		agents[i], windows[i] = periods[i].Agent, periods[i].window
	}
	states, err := store.States(ctx, accountID, agents, windows)
	if err != nil {
		return nil, err
	}
	caps := make([]spentCap, len(periods))
	for i := range periods {
		caps[i] = spentCap{periods[i], upTo(states[i].Spent)}
	}
	return caps, nil
}

// upTo returns a sum as an amount; more than an amount can be is above every cap.
func upTo(s schema.Sum) schema.NanoUSD {
	hi, lo := s.Words()
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return schema.NanoUSD(lo)
}

// Open incidents have a peak; of those that ended, the last end of each scope counts.
const selectIncidents = `
SELECT alert_id, scope, incident_id, peak, NULL::timestamptz AS ended_at FROM incidents WHERE alert_id = ANY($1) AND ended_at IS NULL
UNION ALL
SELECT alert_id, scope, NULL, 0, max(ended_at) FROM incidents WHERE alert_id = ANY($1) AND ended_at > $2 GROUP BY alert_id, scope`

// incidentsOf reads the open incidents of rules, and when the last ones ended, as far back as a cooldown may reach.
func (w *Evaluator) incidentsOf(ctx context.Context, rules []alert.Rule, at time.Time) (map[schema.ID]ruleIncidents, error) {
	ids, found := make([]schema.ID, len(rules)), map[schema.ID]ruleIncidents{}
	for i := range rules {
		ids[i] = rules[i].ID
		found[ids[i]] = ruleIncidents{open: map[string]openIncident{}, ended: map[string]time.Time{}}
	}
	rows, err := pgdb.Rows[struct {
		AlertID    schema.ID
		Scope      string
		IncidentID *schema.ID
		Peak       float64
		EndedAt    *time.Time
	}](ctx, w.pool, "read incidents", selectIncidents, ids, at.Add(-alert.MaxCooldown))
	for _, r := range rows {
		if r.EndedAt != nil {
			found[r.AlertID].ended[r.Scope] = *r.EndedAt
		} else {
			found[r.AlertID].open[r.Scope] = openIncident{*r.IncidentID, r.Peak}
		}
	}
	return found, err
}
