package alert

import (
	"slices"

	"github.com/outlayhq/outlay/schema"
)

// Check notes everything that is wrong with the rule, by the names of the API. What
// has a type of its own in the API (window, cooldown, threshold) was read before.
func (r *Rule) Check(faults *schema.Faults) {
	if r.Name == "" {
		faults.Add("name", "is required")
	}
	faults.CheckText("name", r.Name, schema.MaxNameLength)
	if !slices.Contains(Metrics(), r.Metric) {
		faults.Add("metric", "must be one of cost_usd, events, errors, error_rate, input_tokens, output_tokens, latency_p95_ms, unpriced_events, budget_used")
	}
	checkFilter(faults, "agent", r.Agent)
	checkFilter(faults, "model", r.Model)
	checkFilter(faults, "provider", r.Provider)
	r.checkCondition(faults)
	if r.Metric == BudgetUsed {
		r.checkBudget(faults)
	}
	if r.Cooldown < 0 || r.Cooldown > MaxCooldown {
		faults.Add("cooldown", "must be from 0s to 168h")
	}
	checkChannels(faults, r.Channels)
}

func checkFilter(faults *schema.Faults, field string, value *string) {
	if value == nil {
		return
	}
	if *value == "" {
		faults.Add(field, "must not be empty; leave it out for all")
	}
	faults.CheckName(field, *value, schema.MaxNameLength)
}

func (r *Rule) checkCondition(faults *schema.Faults) {
	switch r.Condition {
	case Above:
		r.checkThreshold(faults)
		if r.Sensitivity != nil {
			faults.Add("condition.sensitivity", `is for "anomaly"`)
		}
	case Anomaly:
		if r.Threshold != nil {
			faults.Add("condition.value", `is for "above"`)
		}
		if s := r.Sensitivity; s != nil && !(*s >= MinSensitivity && *s <= MaxSensitivity) {
			faults.Add("condition.sensitivity", "must be a number from 1 to 20")
		}
	default:
		faults.Add("condition.type", `must be "above" or "anomaly"`)
	}
}

func (r *Rule) checkThreshold(faults *schema.Faults) {
	switch v := r.Threshold; {
	case faults.Has("condition.value"):
	case v == nil:
		faults.Add("condition.value", "is required")
	case r.Metric == Cost:
	case !(*v >= 0 && *v <= MaxThreshold):
		faults.Add("condition.value", "must be a number from 0 to 9007199254740991")
	case r.Metric == ErrorRate && *v >= 1:
		faults.Add("condition.value", "must be a share below 1, such as 0.05")
	}
}

// checkBudget refuses what makes no sense for a cap, which is of an agent and has
// periods of its own.
func (r *Rule) checkBudget(faults *schema.Faults) {
	if r.Model != nil {
		faults.Add("model", "cannot be given with budget_used: caps are of agents")
	}
	if r.Provider != nil {
		faults.Add("provider", "cannot be given with budget_used: caps are of agents")
	}
	if r.Condition == Anomaly {
		faults.Add("condition.type", `must be "above" for budget_used`)
	}
}
