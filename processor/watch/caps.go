package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/budget"
)

// checkCaps looks for caps whose spend has passed a threshold. They need no rule: the
// account's own channels are told, once in a period.
func (w *Watcher) checkCaps(ctx context.Context) error {
	store := budget.NewStore(w.pool)
	budgets, err := store.All(ctx)
	if err != nil {
		return err
	}
	of := map[schema.ID][]budget.Budget{}
	for i := range budgets {
		of[budgets[i].AccountID] = append(of[budgets[i].AccountID], budgets[i])
	}
	var failed error
	for accountID, list := range of {
		err := w.checkCapsOf(ctx, store, accountID, list)
		if errors.Is(err, errNotLeading) || ctx.Err() != nil {
			return err
		}
		failed = errors.Join(failed, err, w.prolong(ctx))
	}
	return failed
}

func (w *Watcher) checkCapsOf(ctx context.Context, store *budget.Store, accountID schema.ID, budgets []budget.Budget) error {
	caps, err := w.standingCaps(ctx, store, accountID, budgets)
	if err != nil {
		return err
	}
	var passed []passing
	for i := range caps {
		passed = append(passed, caps[i].passed()...)
	}
	if len(passed) == 0 {
		return nil
	}
	known, err := w.knownPassings(ctx, accountID, passed)
	if err != nil {
		return err
	}
	for i := range passed {
		if !known[passed[i].key()] {
			if err := w.note(ctx, &passed[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// passing is a threshold of a cap that its spend has passed.
type passing struct {
	*standingCap
	share float64
}

type passingKey struct {
	agent string
	start time.Time
	epoch int32
	share float64
}

func (p *passing) key() passingKey {
	return passingKey{p.Agent, p.window.Start.UTC(), p.Epoch, p.share}
}

// passed lists the thresholds that are reached. The cap itself is one without being
// asked for; a cap of nothing has none.
func (c *standingCap) passed() []passing {
	if c.Limit == 0 {
		return nil
	}
	var list []passing
	for _, share := range c.AlertAt {
		if share < 1 && float64(c.spent) >= share*float64(c.Limit) {
			list = append(list, passing{c, share})
		}
	}
	if c.spent >= c.Limit {
		list = append(list, passing{c, 1})
	}
	return list
}

const selectPassings = `
SELECT scope, period_start, epoch, share FROM incidents
WHERE account_id = $1 AND kind = 'budget' AND scope = ANY($2) AND period_start = ANY($3)`

// knownPassings returns those that were told.
func (w *Watcher) knownPassings(ctx context.Context, accountID schema.ID, passed []passing) (map[passingKey]bool, error) {
	agents, starts := make([]string, len(passed)), make([]time.Time, len(passed))
	for i := range passed {
		agents[i], starts[i] = passed[i].Agent, passed[i].window.Start
	}
	rows, _ := w.pool.Query(ctx, selectPassings, accountID, agents, starts)
	known := map[passingKey]bool{}
	var k passingKey
	_, err := pgx.ForEachRow(rows, []any{&k.agent, &k.start, &k.epoch, &k.share}, func() error {
		k.start = k.start.UTC()
		known[k] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read passed thresholds: %w", err)
	}
	return known, nil
}

const insertPassing = `
INSERT INTO incidents (incident_id, account_id, kind, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary,
  period_start, epoch, share)
VALUES ($1, $2, 'budget', $3, 'budget_used', $4, $5, $5, $6, $6, $5, $7, $8, $9, $10)
ON CONFLICT (account_id, scope, period_start, epoch, share) WHERE kind = 'budget' DO NOTHING`

// note writes down that a threshold was passed and tells it.
func (w *Watcher) note(ctx context.Context, p *passing) error {
	now := w.now().UTC().Truncate(time.Microsecond)
	id := schema.NewID(now)
	m := p.message(id, now)
	inserted := false
	err := w.lead.within(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertPassing, id, p.AccountID, m.Title, p.Agent, now, p.used(), m.Summary,
			p.window.Start, p.Epoch, p.share)
		if err != nil {
			return fmt.Errorf("note passed threshold: %w", err)
		}
		if inserted = tag.RowsAffected() > 0; !inserted {
			return nil
		}
		return alert.NewStore(tx).TellAccount(ctx, p.AccountID, m)
	})
	if err == nil && inserted {
		w.metrics.transitions.WithLabelValues(string(m.Type)).Inc()
	}
	return err
}

// passingData is the data of budget.threshold and budget.exceeded.
type passingData struct {
	IncidentID  string         `json:"incident_id"`
	Agent       *string        `json:"agent"`
	Share       float64        `json:"share"`
	Used        float64        `json:"used"`
	LimitUSD    schema.NanoUSD `json:"limit_usd"`
	SpentUSD    schema.NanoUSD `json:"spent_usd"`
	Period      budget.Period  `json:"period"`
	PeriodStart *time.Time     `json:"period_start"`
	ResetsAt    *time.Time     `json:"resets_at"`
	Summary     string         `json:"summary"`
}

func (p *passing) message(id schema.ID, now time.Time) *alert.Message {
	whose := "The account"
	if p.Agent != "" {
		whose = p.Agent
	}
	m := &alert.Message{
		Type: alert.BudgetThreshold, Cause: "budget " + id.Text(alert.IncidentPrefix), IncidentID: &id, At: now,
		Title: fmt.Sprintf("%s of the cap: %s", bare(alert.BudgetUsed, p.share), whose),
	}
	if p.share >= 1 {
		m.Type, m.Title = alert.BudgetExceeded, "Cap reached: "+whose
	}
	m.Summary = fmt.Sprintf("%s has spent $%s of its cap of $%s", whose,
		bare(alert.Cost, float64(p.spent)), bare(alert.Cost, float64(p.Limit)))
	if p.Period != budget.Total {
		m.Summary += " for the " + string(p.Period)
	}
	d := passingData{
		IncidentID: id.Text(alert.IncidentPrefix), Share: p.share, Used: p.used(), LimitUSD: p.Limit, SpentUSD: p.spent,
		Period: p.Period, Summary: m.Summary,
	}
	if p.Agent != "" {
		d.Agent = &p.Agent
	}
	if p.Period != budget.Total {
		d.PeriodStart, d.ResetsAt = &p.window.Start, &p.window.End
	}
	m.Data = d
	return m
}
