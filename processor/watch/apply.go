package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

// apply writes what the checks of an account have found, with the messages that report
// it, in one transaction.
func (w *Watcher) apply(ctx context.Context, accountID schema.ID, findings []finding, at time.Time) error {
	if len(findings) == 0 {
		return nil
	}
	told := transitions{}
	err := w.lead.within(ctx, func(tx pgx.Tx) error {
		for i := range findings {
			if err := w.applyRule(ctx, tx, &findings[i], at, told); err != nil {
				return err
			}
		}
		return saveStatuses(ctx, tx, accountID, findings)
	})
	if err != nil {
		return err
	}
	for state, n := range told {
		w.metrics.transitions.WithLabelValues(string(state)).Add(float64(n))
	}
	return nil
}

// transitions counts messages by type.
type transitions map[alert.Type]int

// A rule that was changed since it was read is judged anew at the next check.
const lockUnchanged = `SELECT true FROM alert_rules WHERE alert_id = $1 AND updated_at = $2 AND enabled FOR SHARE`

func (w *Watcher) applyRule(ctx context.Context, tx pgx.Tx, f *finding, at time.Time, told transitions) error {
	if len(f.fire)+len(f.resolve)+len(f.peak) == 0 {
		return nil
	}
	var unchanged bool
	err := tx.QueryRow(ctx, lockUnchanged, f.rule.ID, f.rule.UpdatedAt).Scan(&unchanged)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock rule: %w", err)
	}
	store := alert.NewStore(tx)
	channels, err := store.Channels(ctx, f.rule.AccountID, &f.rule.ID)
	if err != nil {
		return err
	}
	for i := range f.fire {
		if err := w.fire(ctx, tx, f.rule, channels, &f.fire[i], at, told); err != nil {
			return err
		}
	}
	for i := range f.resolve {
		if err := w.resolve(ctx, tx, f.rule, channels, &f.resolve[i], at, told); err != nil {
			return err
		}
	}
	for _, c := range f.peak {
		if _, err := tx.Exec(ctx, raisePeak, c.incident.id, c.verdict.value, at); err != nil {
			return fmt.Errorf("raise peak: %w", err)
		}
	}
	return nil
}

const raisePeak = `UPDATE incidents SET peak = $2, peak_at = $3 WHERE incident_id = $1 AND ended_at IS NULL`

const insertIncident = `
INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, value, peak, peak_at, summary)
VALUES ($1, $2, 'alert', $3, $4, $5, $6, $7, $8, $8, $7, $9)
ON CONFLICT (alert_id, scope) WHERE ended_at IS NULL DO NOTHING`

func (w *Watcher) fire(
	ctx context.Context, tx pgx.Tx, r *alert.Rule, channels []alert.Channel, v *verdict, at time.Time, told transitions,
) error {
	id := schema.NewID(at)
	tag, err := tx.Exec(ctx, insertIncident, id, r.AccountID, r.ID, r.Name, r.Metric, v.scope, at, v.value, v.summary)
	if err != nil {
		return fmt.Errorf("begin incident: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	m := newMessage(alert.AlertFiring, r, v, id, at)
	m.Data = alertData(r, v, id, alert.Firing, at, nil, v.value)
	told[m.Type]++
	_, err = alert.NewStore(tx).Tell(ctx, r.AccountID, m, channels)
	return err
}

const endIncident = `
UPDATE incidents SET ended_at = greatest($2, started_at) WHERE incident_id = $1 AND ended_at IS NULL
RETURNING ended_at, peak`

func (w *Watcher) resolve(
	ctx context.Context, tx pgx.Tx, r *alert.Rule, channels []alert.Channel, c *change, at time.Time, told transitions,
) error {
	var ended time.Time
	var peak float64
	err := tx.QueryRow(ctx, endIncident, c.incident.id, at).Scan(&ended, &peak)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end incident: %w", err)
	}
	m := newMessage(alert.AlertResolved, r, &c.verdict, c.incident.id, at)
	m.Data = alertData(r, &c.verdict, c.incident.id, "resolved", c.incident.startedAt, &ended, peak)
	told[m.Type]++
	_, err = alert.NewStore(tx).Tell(ctx, r.AccountID, m, channels)
	return err
}

func newMessage(t alert.Type, r *alert.Rule, v *verdict, incident schema.ID, at time.Time) *alert.Message {
	m := &alert.Message{
		Type: t, Cause: string(t) + " " + incident.Text(alert.IncidentPrefix), RuleID: &r.ID, IncidentID: &incident, At: at,
		Title: "Firing: " + r.Name, Summary: v.summary,
	}
	if t == alert.AlertResolved {
		m.Title = "Resolved: " + r.Name
	}
	if v.scope != "" {
		m.Title += " (" + v.scope + ")"
	}
	return m
}

// messageData is the data of alert.firing and alert.resolved.
type messageData struct {
	IncidentID string       `json:"incident_id"`
	AlertID    string       `json:"alert_id"`
	Name       string       `json:"name"`
	State      alert.State  `json:"state"`
	Metric     alert.Metric `json:"metric"`
	Agent      *string      `json:"agent"`
	Window     string       `json:"window"`
	Value      any          `json:"value"`
	Peak       any          `json:"peak"`
	StartedAt  time.Time    `json:"started_at"`
	EndedAt    *time.Time   `json:"ended_at"`
	Summary    string       `json:"summary"`
}

func alertData(r *alert.Rule, v *verdict, id schema.ID, state alert.State, started time.Time, ended *time.Time, peak float64) messageData {
	d := messageData{
		IncidentID: id.Text(alert.IncidentPrefix), AlertID: r.ID.Text(alert.RulePrefix), Name: r.Name, State: state,
		Metric: r.Metric, Window: r.Window.String(), Value: r.Metric.Shown(v.value), Peak: r.Metric.Shown(peak),
		StartedAt: started.UTC(), EndedAt: ended, Summary: v.summary,
	}
	if v.scope != "" {
		d.Agent = &v.scope
	}
	return d
}

const saveStatus = `
INSERT INTO alert_status AS s (alert_id, account_id, state, value, checked_at, data_at, fired_at)
SELECT q.alert_id, $1, q.state, q.value, q.checked_at, q.data_at, q.fired_at
FROM unnest($2::uuid[], $3::text[], $4::float8[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[])
  AS q (alert_id, state, value, checked_at, data_at, fired_at)
JOIN alert_rules r ON r.alert_id = q.alert_id
ON CONFLICT (alert_id) DO UPDATE SET state = excluded.state, value = excluded.value, checked_at = excluded.checked_at,
  data_at = coalesce(excluded.data_at, s.data_at), fired_at = coalesce(excluded.fired_at, s.fired_at)`

func saveStatuses(ctx context.Context, tx pgx.Tx, accountID schema.ID, findings []finding) error {
	n := len(findings)
	ids, states, values := make([]schema.ID, n), make([]string, n), make([]*float64, n)
	checked, data, fired := make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	for i := range findings {
		s := &findings[i].status
		ids[i], states[i], values[i] = findings[i].rule.ID, string(s.State), s.Value
		checked[i], data[i], fired[i] = s.CheckedAt, s.DataAt, s.FiredAt
	}
	if _, err := tx.Exec(ctx, saveStatus, accountID, ids, states, values, checked, data, fired); err != nil {
		return fmt.Errorf("save status of %d rules: %w", n, err)
	}
	return nil
}

const endOrphans = `
UPDATE incidents i SET ended_at = greatest($1, started_at)
WHERE kind = 'alert' AND ended_at IS NULL AND NOT EXISTS (SELECT FROM alert_rules r WHERE r.alert_id = i.alert_id AND r.enabled)`

// closeOrphans ends the incidents of rules that were removed or disabled. Nobody is
// told: whoever did it knows.
func (w *Watcher) closeOrphans(ctx context.Context, at time.Time) error {
	return w.lead.within(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, endOrphans, at); err != nil {
			return fmt.Errorf("end incidents without a rule: %w", err)
		}
		return nil
	})
}
