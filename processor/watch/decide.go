package watch

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

// standing is what the database holds of a rule's incidents.
type standing struct {
	// open are the incidents that last, by scope.
	open map[string]openIncident
	// ended is when the last one of a scope ended.
	ended map[string]time.Time
}

type openIncident struct {
	id        schema.ID
	startedAt time.Time
	peak      float64
}

// decision is what is to be changed for a rule.
type decision struct {
	fire []verdict
	// resolve and peak are by the incident they change.
	resolve []change
	peak    []change
}

type change struct {
	incident openIncident
	verdict  verdict
}

// decide compares verdicts with what was decided before. Unless the sums are complete
// nothing ends and nothing is too low: what is missing may be on its way.
func decide(r *alert.Rule, verdicts []verdict, was standing, at time.Time, complete bool) decision {
	var d decision
	judged := map[string]bool{}
	for _, v := range verdicts {
		judged[v.scope] = true
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
		if !judged[scope] && complete {
			d.resolve = append(d.resolve, change{incident, verdict{
				reading: reading{scope: scope}, summary: "nothing to look at in " + span(r.Window),
			}})
		}
	}
	return d
}

// statusOf is how a rule stands after a decision.
func statusOf(verdicts []verdict, was standing, d decision, at time.Time) alert.Status {
	s := alert.Status{State: alert.NoData, CheckedAt: &at}
	if len(d.fire) > 0 {
		s.FiredAt = &at
	}
	if w := worst(verdicts); w != nil {
		s.Value = &w.value
	}
	learning := 0
	for i := range verdicts {
		if verdicts[i].events > 0 {
			s.State, s.DataAt = alert.OK, &at
		}
		if verdicts[i].learning {
			learning++
		}
	}
	if s.State == alert.OK && learning == len(verdicts) {
		s.State = alert.Learning
	}
	if len(was.open)+len(d.fire)-len(d.resolve) > 0 {
		s.State = alert.Firing
	}
	return s
}
