package alerting

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

// ruleIncidents are the incidents of a rule in the database, by scope.
type ruleIncidents struct {
	// open are the incidents that have not ended.
	open map[string]openIncident
	// ended is when the last one of a scope ended.
	ended map[string]time.Time
}

// openIncident is an incident that has not ended.
type openIncident struct {
	id schema.ID
	// peak is the value furthest off until now.
	peak float64
}

// decision is what is to be changed for a rule.
type decision struct {
	// fire are the evaluations that begin an incident each.
	fire []evaluation
	// resolve and peak are by the incident they change.
	resolve []change
	peak    []change
}

// change is an open incident with the evaluation that ends it or raises its peak.
type change struct {
	incident   openIncident
	evaluation evaluation
}

// decide compares evaluations with the incidents that there are. Unless the sums are complete nothing ends and nothing is too low:
// the missing events may be on their way.
func decide(r *alert.Rule, evaluations []evaluation, was ruleIncidents, at time.Time, complete bool) decision {
	var d decision
	// A scope is one agent of a rule, or everything that it looks at.
	evaluated := map[string]bool{}
	for _, v := range evaluations {
		evaluated[v.scope] = true
		incident, open := was.open[v.scope]
		switch {
		case v.holds && !open:
			ended, before := was.ended[v.scope]
			cooling := before && at.Before(ended.Add(r.Cooldown))
			if !cooling && (complete || !v.low) {
				d.fire = append(d.fire, v)
			}
		case v.holds && (v.low && v.value < incident.peak || !v.low && v.value > incident.peak):
			d.peak = append(d.peak, change{incident, v})
		case !v.holds && open && complete:
			d.resolve = append(d.resolve, change{incident, v})
		}
	}
	// The rule was changed and does not look at this scope any more, or nothing is
	// left of it.
	for scope, incident := range was.open {
		if !evaluated[scope] && complete {
			d.resolve = append(d.resolve, change{incident, evaluation{
				measurement: measurement{scope: scope}, summary: "nothing to look at in " + formatWindow(r.Window),
			}})
		}
	}
	return d
}

// statusOf is the status of a rule after a decision.
func statusOf(evaluations []evaluation, was ruleIncidents, d decision, at time.Time) alert.Status {
	s := alert.Status{State: alert.NoData, CheckedAt: &at}
	if len(d.fire) > 0 {
		s.FiredAt = &at
	}
	if w := worst(evaluations); w != nil {
		s.Value = &w.value
	}
	// A rule is learning only while no agent of it has a baseline.
	learning := 0
	for i := range evaluations {
		if evaluations[i].events > 0 {
			s.State, s.DataAt = alert.OK, &at
		}
		if evaluations[i].learning {
			learning++
		}
	}
	if s.State == alert.OK && learning == len(evaluations) {
		s.State = alert.Learning
	}
	if len(was.open)+len(d.fire)-len(d.resolve) > 0 {
		s.State = alert.Firing
	}
	return s
}
