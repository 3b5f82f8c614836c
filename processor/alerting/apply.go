package alerting

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// apply writes the results of an account's rules, with the messages that report them, in one transaction.
func (w *Evaluator) apply(ctx context.Context, accountID schema.ID, results []result, at time.Time) error {
	if len(results) == 0 {
		return nil
	}
	// The metric counts after the commit: a transaction that is rolled back sent nothing.
	sent := map[alert.Type]int{}
	err := w.leader.transaction(ctx, func(tx pgx.Tx) error {
		for i := range results {
			if err := applyRule(ctx, tx, &results[i], at, sent); err != nil {
				return err
			}
		}
		return saveStatuses(ctx, tx, accountID, results)
	})
	if err != nil {
		return err
	}
	for state, n := range sent {
		w.metrics.transitions.WithLabelValues(string(state)).Add(float64(n))
	}
	return nil
}

// A rule that was changed since it was read is evaluated again at the next check.
const lockUnchanged = `SELECT FROM alert_rules WHERE alert_id = $1 AND updated_at = $2 AND enabled FOR SHARE`

// A scope has at most one open incident. If another leader opened it a moment ago, no row is returned and nobody is notified twice.
const insertIncident = `
INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, value, peak, peak_at, summary)
VALUES ($1, $2, 'alert', $3, $4, $5, $6, $7, $8, $8, $7, $9)
ON CONFLICT (alert_id, scope) WHERE ended_at IS NULL DO NOTHING
RETURNING incident_id, started_at, ended_at, peak`

// An incident that somebody else ended has no row.
const endIncident = `
UPDATE incidents SET ended_at = greatest($2, started_at) WHERE incident_id = $1 AND ended_at IS NULL
RETURNING incident_id, started_at, ended_at, peak`

// The peak is the value furthest from the threshold or the baseline.
const raisePeak = `UPDATE incidents SET peak = $2, peak_at = $3 WHERE incident_id = $1 AND ended_at IS NULL`

// applyRule begins, ends and changes the incidents of a rule. sent counts the messages that it adds, by type.
func applyRule(ctx context.Context, tx pgx.Tx, f *result, at time.Time, sent map[alert.Type]int) error {
	if len(f.fire)+len(f.resolve)+len(f.peak) == 0 {
		return nil
	}
	r, store := f.rule, alert.NewStore(tx)
	err := pgdb.Change(ctx, tx, "lock rule", alert.ErrNotFound, lockUnchanged, r.ID, r.UpdatedAt)
	if errors.Is(err, alert.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	channels, err := store.Channels(ctx, r.AccountID, &r.ID)
	if err != nil {
		return err
	}
	// notify changes an incident, unless somebody has already, and adds the message about it.
	notify := func(t alert.Type, v *evaluation, statement string, args ...any) error {
		i, err := pgdb.Row[incident](ctx, tx, "change incident", alert.ErrNotFound, statement, args...)
		if errors.Is(err, alert.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		sent[t]++
		_, err = store.Notify(ctx, r.AccountID, newMessage(t, r, v, &i, at), channels)
		return err
	}
	for i := range f.fire {
		v := &f.fire[i]
		if err := notify(alert.AlertFiring, v, insertIncident, schema.NewID(at), r.AccountID, r.ID, r.Name, r.Metric, v.scope, at, v.value, v.summary); err != nil {
			return err
		}
	}
	for i := range f.resolve {
		c := &f.resolve[i]
		if err := notify(alert.AlertResolved, &c.evaluation, endIncident, c.incident.id, at); err != nil {
			return err
		}
	}
	for _, c := range f.peak {
		if err := pgdb.Exec(ctx, tx, "raise peak", raisePeak, c.incident.id, c.evaluation.value, at); err != nil {
			return err
		}
	}
	return nil
}

// incident is the row of an incident after it was changed.
type incident struct {
	IncidentID schema.ID
	StartedAt  time.Time
	EndedAt    *time.Time
	Peak       float64
}

// messageData is the data of alert.firing and alert.resolved.
type messageData struct {
	IncidentID string       `json:"incident_id"`
	AlertID    string       `json:"alert_id"`
	Name       string       `json:"name"`
	State      alert.State  `json:"state"`
	Metric     alert.Metric `json:"metric"`
	// Agent is null when the rule looks at everything as one.
	Agent  *string `json:"agent"`
	Window string  `json:"window"`
	// Value and Peak are in the unit that the API shows the metric in, such as US dollars.
	Value     any        `json:"value"`
	Peak      any        `json:"peak"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Summary   string     `json:"summary"`
}

// newMessage returns the message that an incident began or ended. Its cause is the same for the same incident and type, so that a
// channel is notified once.
func newMessage(t alert.Type, r *alert.Rule, v *evaluation, i *incident, at time.Time) *alert.Message {
	id := i.IncidentID.Text(alert.IncidentPrefix)
	d := messageData{
		IncidentID: id, AlertID: r.ID.Text(alert.RulePrefix), Name: r.Name, State: alert.Firing,
		Metric: r.Metric, Window: r.Window.String(), Value: r.Metric.Shown(v.value), Peak: r.Metric.Shown(i.Peak),
		StartedAt: i.StartedAt.UTC(), EndedAt: i.EndedAt, Summary: v.summary,
	}
	title := "Firing: " + r.Name
	if t == alert.AlertResolved {
		d.State, title = "resolved", "Resolved: "+r.Name
	}
	if v.scope != "" {
		d.Agent = &v.scope
		title += " (" + v.scope + ")"
	}
	return &alert.Message{
		Type: t, Cause: string(t) + " " + id, RuleID: &r.ID, IncidentID: &i.IncidentID, At: at, Title: title, Summary: v.summary, Data: d,
	}
}

// A rule that was deleted meanwhile has no status. The times of the last data and the last firing stay when a check has none.
const saveStatus = `
INSERT INTO alert_status AS s (alert_id, account_id, state, value, checked_at, data_at, fired_at)
SELECT q.alert_id, $1, q.state, q.value, q.checked_at, q.data_at, q.fired_at
FROM unnest($2::uuid[], $3::text[], $4::float8[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[])
  AS q (alert_id, state, value, checked_at, data_at, fired_at)
JOIN alert_rules r ON r.alert_id = q.alert_id
ON CONFLICT (alert_id) DO UPDATE SET state = excluded.state, value = excluded.value, checked_at = excluded.checked_at,
  data_at = coalesce(excluded.data_at, s.data_at), fired_at = coalesce(excluded.fired_at, s.fired_at)`

// saveStatuses writes what the last check of each rule found, which the API shows.
func saveStatuses(ctx context.Context, tx pgx.Tx, accountID schema.ID, results []result) error {
	n := len(results)
	ids, states, values := make([]schema.ID, n), make([]string, n), make([]*float64, n)
	checked, data, fired := make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	for i := range results {
		s := &results[i].status
		ids[i], states[i], values[i] = results[i].rule.ID, string(s.State), s.Value
		checked[i], data[i], fired[i] = s.CheckedAt, s.DataAt, s.FiredAt
	}
	return pgdb.Exec(ctx, tx, "save the status of rules", saveStatus, accountID, ids, states, values, checked, data, fired)
}

// It is one statement for all accounts, whatever the number of rules.
const endOrphans = `
UPDATE incidents i SET ended_at = greatest($1, started_at)
WHERE kind = 'alert' AND ended_at IS NULL AND NOT EXISTS (SELECT FROM alert_rules r WHERE r.alert_id = i.alert_id AND r.enabled)`

// endOrphanedIncidents ends the incidents of rules that were removed or disabled. Nobody is notified: whoever did it knows.
func (w *Evaluator) endOrphanedIncidents(ctx context.Context, at time.Time) error {
	return w.leader.exec(ctx, "end incidents without a rule", endOrphans, at)
}
