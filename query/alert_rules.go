package query

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/problem"
)

// conditionReply is when a rule fires. Value belongs to above, Sensitivity to anomaly.
type conditionReply struct {
	Type alert.Condition `json:"type"`
	// Value is a number in the unit of the metric: dollars are written exactly.
	Value any `json:"value,omitempty"`
	// Sensitivity is how many usual spreads a value may be off.
	Sensitivity *float64 `json:"sensitivity,omitempty"`
}

// channelReply is a channel. Secret is there once, in the answer that made it.
type channelReply struct {
	Type alert.ChannelType `json:"type"`
	// URL is of a webhook or of Slack, To of e-mail; one of both is left out.
	URL    string `json:"url,omitempty"`
	To     string `json:"to,omitempty"`
	Secret string `json:"secret,omitempty"`
}

func newChannelReplies(channels []alert.Channel) []channelReply {
	replies := make([]channelReply, len(channels))
	for i := range channels {
		c := &channels[i]
		replies[i] = channelReply{Type: c.Type, URL: c.Address, Secret: c.Secret}
		if c.Type == alert.Email {
			replies[i].URL, replies[i].To = "", c.Address
		}
	}
	return replies
}

// alertReply is a rule and how it stands.
type alertReply struct {
	ID     string       `json:"id"`
	Name   string       `json:"name"`
	Metric alert.Metric `json:"metric"`
	// Agent, Model and Provider narrow what the rule looks at; null does not.
	Agent    *string `json:"agent"`
	Model    *string `json:"model"`
	Provider *string `json:"provider"`
	// Window is 5m, 15m, 1h or 24h: the time that each check looks back on.
	Window    string         `json:"window"`
	Condition conditionReply `json:"condition"`
	// Cooldown is how long the rule rests for the same agent after an incident.
	Cooldown string         `json:"cooldown"`
	Channels []channelReply `json:"channels"`
	Enabled  bool           `json:"enabled"`
	// State is how the rule stood at LastCheckedAt; "disabled" and "pending" are those
	// of a rule that is not checked, or not yet.
	State alert.State `json:"state"`
	// LastValue is that of the agent or cap that was worst at the last check, null before the first one.
	LastValue     any        `json:"last_value"`
	LastCheckedAt usage.Time `json:"last_checked_at"`
	// LastDataAt is the latest event that a check saw; it may lie long before LastCheckedAt.
	LastDataAt  usage.Time `json:"last_data_at"`
	LastFiredAt usage.Time `json:"last_fired_at"`
	CreatedAt   usage.Time `json:"created_at"`
	UpdatedAt   usage.Time `json:"updated_at"`
	// Warning states why nobody is notified by the rule; left out otherwise.
	Warning string `json:"warning,omitempty"`
}

// noChannelsWarning is a warning and no error: rules without channels are made to look at their incidents.
const noChannelsWarning = "The rule has no channels, so nobody is notified; its incidents are listed only. PATCH it with channels."

// newAlertReply takes the zero Status for a rule that was just made.
func newAlertReply(r *alert.Rule, s alert.Status) alertReply {
	reply := alertReply{
		ID: r.ID.Text(alert.RulePrefix), Name: r.Name, Metric: r.Metric, Agent: r.Agent, Model: r.Model, Provider: r.Provider,
		Window: r.Window.String(), Condition: conditionReply{Type: r.Condition, Sensitivity: r.Sensitivity},
		Cooldown: durationText(r.Cooldown), Channels: newChannelReplies(r.Channels), Enabled: r.Enabled, State: s.State,
		LastCheckedAt: timeOf(s.CheckedAt), LastDataAt: timeOf(s.DataAt), LastFiredAt: timeOf(s.FiredAt),
		CreatedAt: usage.Time{Time: r.CreatedAt}, UpdatedAt: usage.Time{Time: r.UpdatedAt},
	}
	if len(r.Channels) == 0 {
		reply.Warning = noChannelsWarning
	}
	if r.Threshold != nil {
		reply.Condition.Value = r.Metric.Shown(*r.Threshold)
	}
	if s.Value != nil {
		reply.LastValue = r.Metric.Shown(*s.Value)
	}
	switch {
	case !r.Enabled:
		reply.State = "disabled"
	case s.State == "":
		reply.State = "pending"
	}
	return reply
}

// durationText writes a duration without parts that are nothing: "1h", "1h30m", "0s".
func durationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// ruleOrDelivery names both in one message, since an address may hold the ids of both.
const ruleOrDelivery = "alert rule or delivery"

// alertError is storeError for what only alerts have.
func alertError(err error) error {
	switch {
	case errors.Is(err, alert.ErrNotFound):
		return notThere(ruleOrDelivery)
	case errors.Is(err, alert.ErrTooMany):
		return problem.New(problem.Conflict, "The account has 100 alert rules, which is as many as it may have. Remove one first.")
	case errors.Is(err, alert.ErrHiddenAddress):
		return problem.FromFaults(schema.Faults{{Field: "channels", Message: "must hold the whole address of a new Slack channel"}})
	case errors.Is(err, alert.ErrPending):
		return problem.New(problem.Conflict, "The message is still on its way. Wait until it is delivered or given up.")
	}
	return storeError(err, "alert rule")
}

// alerting runs f on what the caller's account may see of alerts.
func (s *Server) alerting(c *rest.Request, f func(context.Context, *alert.Store) error) error {
	return s.usage.Within(c.Ctx(), c.Who.AccountID, func(ctx context.Context, tx pgx.Tx) error {
		return f(ctx, alert.NewStore(tx))
	})
}

// listAlerts answers a page of the account's rules, newest first.
func (s *Server) listAlerts(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	var rules []alert.Rule
	var statuses map[schema.ID]alert.Status
	err := s.alerting(c, func(ctx context.Context, store *alert.Store) (err error) {
		if rules, err = store.Rules(ctx, c.Who.AccountID); err != nil {
			return err
		}
		// The processor keeps statuses apart from the rules that it checks.
		statuses, err = store.Statuses(ctx, c.Who.AccountID)
		return err
	})
	if err != nil {
		return alertError(err)
	}
	// An account has at most 100 rules: they are all read, and pages are cut here.
	rules = slices.DeleteFunc(rules, func(r alert.Rule) bool { return after.Passed(r.ID) })
	return rest.ReplyPage(c, p, limit, rules,
		func(r *alert.Rule) alertReply { return newAlertReply(r, statuses[r.ID]) },
		func(r *alert.Rule) rest.IDPosition { return rest.IDPosition{ID: r.ID} })
}

// ofRule is ofID for alert rules.
func ofRule(h func(c *rest.Request, id schema.ID) error) handler {
	return ofID(alert.RulePrefix, ruleOrDelivery, h)
}

// alert answers a rule.
func (s *Server) alert(c *rest.Request, id schema.ID) error {
	var rule alert.Rule
	var statuses map[schema.ID]alert.Status
	err := s.alerting(c, func(ctx context.Context, store *alert.Store) (err error) {
		if rule, err = store.Get(ctx, c.Who.AccountID, id); err != nil {
			return err
		}
		statuses, err = store.Statuses(ctx, c.Who.AccountID)
		return err
	})
	if err != nil {
		return alertError(err)
	}
	return c.Reply(newAlertReply(&rule, statuses[id]))
}

// deleteAlert removes a rule. An incident of it that lasts ends without a message.
func (s *Server) deleteAlert(c *rest.Request, id schema.ID) error {
	return alertError(s.remove(c, "alert.remove", id.Text(alert.RulePrefix), func(ctx context.Context, tx pgx.Tx) error {
		return alert.NewStore(tx).Delete(ctx, c.Who.AccountID, id)
	}))
}
