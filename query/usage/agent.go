package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// ModelUsage is what an agent did with one model.
type ModelUsage struct {
	// Model is empty for events that named none.
	Model string
	Measures
}

// DayUsage is what an agent did on one UTC day, or on the part of it that lies in
// the range.
type DayUsage struct {
	Start time.Time
	Measures
}

// AgentDetail is an agent with its usage by model, the dearest first, and by day.
type AgentDetail struct {
	Agent
	ByModel []*ModelUsage
	Daily   []DayUsage
}

const selectAgentSeen = `
SELECT min(first_ts), max(last_ts)
FROM (
	SELECT first_ts, last_ts FROM usage_daily WHERE account_id = $1 AND agent = $2 AND bucket >= $5 AND bucket < $6
	UNION ALL
	SELECT first_ts, last_ts FROM usage_15m WHERE account_id = $1 AND agent = $2 AND bucket >= $3 AND bucket < $5
	UNION ALL
	SELECT first_ts, last_ts FROM usage_15m WHERE account_id = $1 AND agent = $2 AND bucket >= $6 AND bucket < $4
) AS days_and_edges`

const selectAgentSessions = `
WITH pending AS MATERIALIZED (` + pendingSessions + `
)
SELECT (
	SELECT count(*) FROM` + overlapping + ` WHERE agents @> ARRAY[$4::text] AND` + nothingPending + `
) + (
	SELECT count(*) FROM pending WHERE agents @> ARRAY[$4::text] AND started_at < $3 AND ended_at >= $2
)`

const selectAgentRefused = `
SELECT coalesce(sum(events), 0)::bigint, coalesce(sum(cost_nano_usd), 0)
FROM refused_events WHERE account_id = $1 AND agent = $2 AND bucket >= $3 AND bucket < $4`

const selectAgentKnown = `
SELECT EXISTS (SELECT FROM usage_daily WHERE account_id = $1 AND agent = $2)`

// Agent returns what one agent did in a range. It returns ErrNotFound for an agent
// that never sent an event, and zeros for one that sent none in the range.
func (s *Store) Agent(ctx context.Context, accountID schema.ID, agentName string, r Range) (AgentDetail, error) {
	detail := AgentDetail{Agent: Agent{Name: agentName}}
	bounds := r.splitByDay()
	dayFrom, dayTo := r.days()
	var answer Answer
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		queueAnalysis(b, accountID, &Question{Bounds: bounds, Agent: &agentName, ByModel: true}, &answer)
		b.Queue(selectAgentRefused, accountID, agentName, r.From, r.To).QueryRow(func(row pgx.Row) error {
			return row.Scan(&detail.RefusedEvents, &detail.RefusedCostUSD)
		})
		b.Queue(selectAgentSeen, accountID, agentName, r.From, r.To, dayFrom, dayTo).QueryRow(func(row pgx.Row) error {
			return row.Scan(&detail.FirstSeen, &detail.LastSeen)
		})
		b.Queue(selectAgentSessions, accountID, r.From, r.To, agentName).QueryRow(func(row pgx.Row) error {
			return row.Scan(&detail.Sessions)
		})
	})
	if err == nil && answer.Totals.Events == 0 {
		// A session that goes over the whole range has none of its events in it.
		detail.Sessions = 0
		err = s.mustExist(ctx, accountID, agentName)
	}
	if err != nil {
		return AgentDetail{}, fmt.Errorf("find agent: %w", err)
	}
	detail.add(&answer, bounds)
	return detail, nil
}

// mustExist returns ErrNotFound for an agent that never sent an event.
func (s *Store) mustExist(ctx context.Context, accountID schema.ID, agentName string) error {
	var known bool
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(selectAgentKnown, accountID, agentName).QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
	})
	if err == nil && !known {
		err = ErrNotFound
	}
	return err
}

// add spreads the rows of an answer by model and day.
func (d *AgentDetail) add(answer *Answer, bounds []time.Time) {
	d.Daily = make([]DayUsage, len(bounds)-1)
	for i := range d.Daily {
		d.Daily[i].Start = bounds[i]
	}
	models := map[string]*ModelUsage{}
	for i := range answer.Rows {
		row := &answer.Rows[i]
		model := models[*row.Model]
		if model == nil {
			model = &ModelUsage{Model: *row.Model}
			models[*row.Model] = model
			d.ByModel = append(d.ByModel, model)
		}
		model.Add(&row.Measures)
		d.Daily[row.Slot-1].Add(&row.Measures)
		d.Measures.Add(&row.Measures)
	}
	slices.SortFunc(d.ByModel, func(a, b *ModelUsage) int {
		return cmp.Or(b.CostUSD.Cmp(&a.CostUSD.Sum), cmp.Compare(a.Model, b.Model))
	})
	for model := range models {
		if model != "" {
			d.Models = append(d.Models, model)
		}
	}
	slices.Sort(d.Models)
}
