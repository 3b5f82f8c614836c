package query

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/alert"
)

// alertRequest is a rule as a client makes it, or the part of one that is to be
// changed.
type alertRequest struct {
	// Name is trimmed and required.
	Name   string       `json:"name"`
	Metric alert.Metric `json:"metric"`
	// Agent, Model and Provider are nil for all; null in a change takes the filter away.
	Agent    *string `json:"agent"`
	Model    *string `json:"model"`
	Provider *string `json:"provider"`
	// Window is one of 5m, 15m, 1h, 24h.
	Window string `json:"window"`
	// Condition is required for a new rule, and with another metric of a rule with a threshold.
	Condition *conditionRequest `json:"condition"`
	// Cooldown is in Go's notation, whole seconds. Defaults to alert.DefaultCooldown.
	Cooldown *string `json:"cooldown"`
	// Channels are replaced as a whole; nil keeps them, an empty list takes all away.
	Channels *[]channelRequest `json:"channels"`
	// Enabled defaults to true.
	Enabled *bool `json:"enabled"`
}

// conditionRequest is a condition as a client sets it.
type conditionRequest struct {
	Type alert.Condition `json:"type"`
	// Value keeps its JSON text, so that dollars are read without a float.
	Value       jsontext.Value `json:"value"`
	Sensitivity *float64       `json:"sensitivity"`
}

// channelRequest has a URL or a To, as Type says.
type channelRequest struct {
	Type alert.ChannelType `json:"type"`
	URL  string            `json:"url"`
	To   string            `json:"to"`
}

// channelsOf returns the channels of a request; the field of another type is a fault, not silently dropped.
func channelsOf(requests []channelRequest, faults *schema.Faults) []alert.Channel {
	channels := make([]alert.Channel, len(requests))
	for i, r := range requests {
		channels[i] = alert.Channel{Type: r.Type, Address: r.URL}
		other, given := "to", r.To
		if r.Type == alert.Email {
			channels[i].Address, other, given = r.To, "url", r.URL
		}
		if given != "" {
			faults.Add("channels["+strconv.Itoa(i)+"]."+other, "is not for a channel of this type")
		}
	}
	return channels
}

// requestOf is a rule as a client could have asked for it. What a body changes is read
// over it; a condition and channels are replaced as a whole.
func requestOf(r *alert.Rule) alertRequest {
	cooldown := durationText(r.Cooldown)
	return alertRequest{
		Name: r.Name, Metric: r.Metric, Agent: r.Agent, Model: r.Model, Provider: r.Provider,
		Window: r.Window.String(), Cooldown: &cooldown, Enabled: &r.Enabled,
	}
}

// apply makes r what is asked for.
func (q *alertRequest) apply(r *alert.Rule) error {
	var faults schema.Faults
	metric := r.Metric
	r.Name, r.Metric = strings.TrimSpace(q.Name), q.Metric
	r.Agent, r.Model, r.Provider = trimmed(q.Agent), trimmed(q.Model), trimmed(q.Provider)
	r.Enabled = q.Enabled == nil || *q.Enabled
	q.applyTimes(r, &faults)
	switch {
	case q.Condition != nil:
		q.Condition.apply(r, &faults)
	case r.Condition == "":
		faults.Add("condition", "is required")
	case metric != r.Metric && r.Condition == alert.Above:
		faults.Add("condition", "is required with another metric")
	}
	if q.Channels != nil {
		r.Channels = channelsOf(*q.Channels, &faults)
	}
	// Check looks at the condition too, and would report it a second time.
	if !faults.Has("condition") {
		r.Check(&faults)
	}
	return rest.Invalid(faults)
}

// trimmed treats a name as tracking does.
func trimmed(text *string) *string {
	if text == nil {
		return nil
	}
	t := schema.NormalName(strings.TrimSpace(*text))
	return &t
}

// applyTimes reads window and cooldown.
func (q *alertRequest) applyTimes(r *alert.Rule, faults *schema.Faults) {
	var ok bool
	if r.Window, ok = alert.ParseWindow(q.Window); !ok {
		faults.Add("window", "must be one of 5m, 15m, 1h, 24h")
	}
	r.Cooldown = alert.DefaultCooldown
	if q.Cooldown != nil {
		d, err := time.ParseDuration(*q.Cooldown)
		if err != nil || d%time.Second != 0 {
			faults.Add("cooldown", "must be a time in whole seconds, such as 30m or 1h")
			return
		}
		r.Cooldown = d
	}
}

// apply replaces the condition of r as a whole. r.Metric is set before, since it decides the unit of the value.
func (q *conditionRequest) apply(r *alert.Rule, faults *schema.Faults) {
	r.Condition, r.Threshold, r.Sensitivity = q.Type, nil, q.Sensitivity
	if r.Condition == alert.Anomaly && r.Sensitivity == nil {
		sensitivity := float64(alert.DefaultSensitivity)
		r.Sensitivity = &sensitivity
	}
	const field = "condition.value"
	switch q.Value.Kind() {
	case 0, 'n':
		return
	case '0':
	default:
		faults.Add(field, "must be a number")
		return
	}
	if r.Metric == alert.Cost {
		nano, err := schema.ParseUSDUpTo(string(q.Value), alert.MaxThresholdUSD*1_000_000_000)
		switch {
		case errors.Is(err, schema.ErrAmountTooLarge):
			faults.Add(field, "must be at most 9000000")
		case err != nil:
			faults.Add(field, err.Error())
		}
		// Thresholds are compared as floats of nano-dollars, which are exact up to 9 million dollars.
		v := float64(nano)
		r.Threshold = &v
		return
	}
	v, err := strconv.ParseFloat(string(q.Value), 64)
	if err != nil {
		faults.Add(field, "must be a number")
	}
	r.Threshold = &v
}

// alertDetail is what the audit log shows of a rule: without secrets.
func alertDetail(r *alert.Rule) map[string]any {
	shown := make([]alert.Channel, len(r.Channels))
	for i := range r.Channels {
		shown[i] = alert.Channel{Type: r.Channels[i].Type, Address: r.Channels[i].Shown()}
	}
	reply := newAlertReply(r, alert.Status{})
	return map[string]any{
		"name": reply.Name, "metric": reply.Metric, "agent": reply.Agent, "model": reply.Model, "provider": reply.Provider,
		"window": reply.Window, "condition": reply.Condition, "cooldown": reply.Cooldown, "enabled": reply.Enabled,
		"channels": newChannelReplies(shown),
	}
}

// nullableOfAlert are the fields that null takes away from a rule.
var nullableOfAlert = []string{"agent", "model", "provider"}

// createAlert makes a rule. Its answer is the only one that holds the secrets of its
// webhooks.
func (s *Server) createAlert(c *rest.Request) error {
	var request alertRequest
	if err := c.Body(&request, nullableOfAlert...); err != nil {
		return err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	rule := alert.Rule{ID: schema.NewID(now), AccountID: c.Who.AccountID, CreatedAt: now, UpdatedAt: now, CreatedBy: &c.Who.UserID}
	if err := request.apply(&rule); err != nil {
		return err
	}
	// Names are looked up before the transaction: a slow DNS server holds no connection.
	if err := s.channels.check(c.Ctx(), rule.Channels); err != nil {
		return err
	}
	err := s.administer(c, "alert.create", alertDetail(&rule), func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		return rule.ID.Text(alert.RulePrefix), alert.NewStore(tx).Sealing(s.secrets).Create(ctx, &rule)
	})
	if err != nil {
		return alertError(err)
	}
	return c.ReplyStatus(http.StatusCreated, newAlertReply(&rule, alert.Status{}))
}

// changeAlert changes what is given of a rule. The answer holds the secrets of
// webhooks that were added.
func (s *Server) changeAlert(c *rest.Request, id schema.ID) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	// What is wrong with the body by itself is reported whether there is such a rule or not.
	var request alertRequest
	if err := rest.ReadObject(text, &request, nullableOfAlert...); err != nil {
		return err
	}
	if err := s.channels.checkRequest(c.Ctx(), request.Channels); err != nil {
		return err
	}
	act, err := s.newAct(c, "alert.change", id.Text(alert.RulePrefix), struct{}{})
	if err != nil {
		return err
	}
	var rule alert.Rule
	var status alert.Status
	err = s.usage.Administer(c.Ctx(), c.Who.AccountID, act, func(ctx context.Context, tx pgx.Tx) error {
		// Sealing encrypts the secrets of webhooks before they are stored.
		store := alert.NewStore(tx).Sealing(s.secrets)
		rule, err = store.Lock(ctx, c.Who.AccountID, id)
		if err != nil {
			return err
		}
		// The body is read over the locked rule, so that two changes at once do not undo each other.
		if act.Detail, err = s.change(ctx, store, &rule, text); err != nil {
			return err
		}
		statuses, err := store.Statuses(ctx, c.Who.AccountID)
		status = statuses[id]
		return err
	})
	if err != nil {
		return alertError(err)
	}
	return c.Reply(newAlertReply(&rule, status))
}

// change makes of a rule what the body says and returns what the audit log shows.
func (s *Server) change(ctx context.Context, store *alert.Store, rule *alert.Rule, text []byte) ([]byte, error) {
	request := requestOf(rule)
	if err := rest.ReadObject(text, &request, nullableOfAlert...); err != nil {
		return nil, err
	}
	kept := rule.Channels
	if request.Channels == nil {
		// Those that are there were checked when they came; as they are shown, they
		// would not pass again.
		rule.Channels = nil
	}
	if err := request.apply(rule); err != nil {
		return nil, err
	}
	rule.UpdatedAt = s.now().UTC().Truncate(time.Microsecond)
	detail, err := json.Marshal(alertDetail(rule))
	if err != nil {
		return nil, err
	}
	if err := store.Update(ctx, rule); err != nil {
		return nil, err
	}
	if request.Channels == nil {
		rule.Channels = kept
		return detail, nil
	}
	rule.Channels, err = store.SetChannels(ctx, rule.AccountID, &rule.ID, rule.Channels, rule.UpdatedAt)
	return detail, err
}
