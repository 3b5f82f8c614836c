// Package alert is what the tiers agree on about alerts: what a rule is, whom it
// tells, what an incident and a delivery are, and how they are kept. The query tier
// keeps rules and shows the rest; judging the rules and sending the messages is the
// processor's.
package alert

import (
	"time"

	"github.com/outlayhq/outlay/schema"
)

// The prefixes of ids.
const (
	RulePrefix     schema.Prefix = "alr"
	IncidentPrefix schema.Prefix = "inc"
	DeliveryPrefix schema.Prefix = "whd"
)

// Metric is what a rule looks at.
type Metric string

// The metrics.
const (
	Cost         Metric = "cost_usd"
	Events       Metric = "events"
	Errors       Metric = "errors"
	ErrorRate    Metric = "error_rate"
	InputTokens  Metric = "input_tokens"
	OutputTokens Metric = "output_tokens"
	LatencyP95   Metric = "latency_p95_ms"
	Unpriced     Metric = "unpriced_events"
	BudgetUsed   Metric = "budget_used"
)

// Metrics are all of them.
func Metrics() []Metric {
	return []Metric{Cost, Events, Errors, ErrorRate, InputTokens, OutputTokens, LatencyP95, Unpriced, BudgetUsed}
}

// Window is how far back a rule looks. It reaches back from now by the time of
// arrival, as caps do: what is late counts when it comes, so nothing is missed, and
// a window that is over does not change any more.
type Window int

// The windows, in minutes.
const (
	FiveMinutes    Window = 5
	FifteenMinutes Window = 15
	Hour           Window = 60
	Day            Window = 24 * 60
)

// Duration is the length of w.
func (w Window) Duration() time.Duration { return time.Duration(w) * time.Minute }

// Start returns where the window that ends at now begins: at its full minute, or for
// Day at its full quarter of an hour, so that it is never shorter than it says.
func (w Window) Start(now time.Time) time.Time {
	grain := time.Minute
	if w == Day {
		grain = 15 * time.Minute
	}
	return now.UTC().Add(-w.Duration()).Truncate(grain)
}

// Condition is what has to hold for a rule to fire.
type Condition string

// The conditions. Above holds while the value is above the threshold, Anomaly while it
// is further from what is usual than Sensitivity times the usual spread.
const (
	Above   Condition = "above"
	Anomaly Condition = "anomaly"
)

// Rule is an alert rule.
type Rule struct {
	ID        schema.ID `db:"alert_id"`
	AccountID schema.ID
	Name      string
	Metric    Metric
	// Agent, Model and Provider narrow what is looked at; nil means all.
	Agent, Model, Provider *string
	Window                 Window `db:"window_minutes"`
	Condition              Condition
	// Threshold is of Above, in the unit of the metric; money in nano-dollars, exact
	// up to MaxThresholdUSD.
	Threshold *float64
	// Sensitivity is of Anomaly.
	Sensitivity *float64
	// Cooldown is how long after the end of an incident the rule does not fire again
	// for the same scope.
	Cooldown  time.Duration
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
	CreatedBy *schema.ID
	Channels  []Channel `db:"-"`
}

// Limits of rules.
const (
	// MaxRules is how many rules an account may have.
	MaxRules = 100
	// MaxChannels is how many channels a rule may have.
	MaxChannels = 10
	// MaxThresholdUSD bounds the threshold of Cost: up to it every nano-dollar is told
	// apart.
	MaxThresholdUSD = 9_000_000
	// MaxThreshold bounds the other thresholds.
	MaxThreshold = float64(schema.MaxCount)
	// MinSensitivity and MaxSensitivity bound Sensitivity.
	MinSensitivity = 1
	MaxSensitivity = 20
	// DefaultSensitivity is what it is when a client does not say.
	DefaultSensitivity = 3
	// MaxCooldown and DefaultCooldown are of Cooldown.
	MaxCooldown     = 7 * 24 * time.Hour
	DefaultCooldown = time.Hour
)

// State is how a rule stood when it was last checked.
type State string

// The states. Learning means that too little is known of what is usual.
const (
	OK       State = "ok"
	Firing   State = "firing"
	NoData   State = "no_data"
	Learning State = "learning"
)

// Status is what the last check of a rule found. The zero Status is that of a rule
// that was never checked.
type Status struct {
	State     State
	Value     *float64
	CheckedAt *time.Time
	DataAt    *time.Time
	FiredAt   *time.Time
}

// Incident is a time during which the condition of a rule held for a scope, or a
// threshold of a cap that was passed.
type Incident struct {
	ID        schema.ID `db:"incident_id"`
	AccountID schema.ID
	Kind      Kind
	// AlertID is the rule; nil for a cap.
	AlertID *schema.ID
	Name    string
	Metric  Metric
	// Scope is the agent, or empty.
	Scope     string
	StartedAt time.Time
	// EndedAt is nil while the condition holds.
	EndedAt *time.Time
	// Value began it and Peak was furthest off, in the unit of Threshold.
	Value, Peak float64
	PeakAt      time.Time
	Summary     string
}

// Kind says what an incident is about.
type Kind string

// The kinds of incidents.
const (
	OfRule   Kind = "alert"
	OfBudget Kind = "budget"
)
