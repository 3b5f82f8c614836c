package alerting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// crossing is a threshold of a cap that its spend has crossed in a period. share is the threshold as a part of the cap.
type crossing struct {
	*spentCap
	share float64
}

// crossingKey distinguishes crossings of which each is notified once: a cap that is reset or changed is crossed anew.
type crossingKey struct {
	agent string // Empty for the account's own cap.
	start time.Time
	epoch int32 // Counts the resets of the cap.
	share float64
	limit schema.NanoUSD
}

// key returns the key of a crossing of the cap as it is now.
func (p *crossing) key() crossingKey {
	return crossingKey{p.Agent, p.window.Start.UTC(), p.Epoch, p.share, p.Limit}
}

// untilTheEnd is the key of a cap that was reached until its period ended, whatever it was raised to meanwhile.
func (k crossingKey) untilTheEnd() crossingKey {
	k.limit = -1
	return k
}

// crossed lists the thresholds that are reached. The cap itself is one without being asked for; a cap of nothing has none.
func (c *spentCap) crossed() []crossing {
	if c.Limit == 0 {
		return nil
	}
	var list []crossing
	for _, share := range c.AlertAt {
		if share < 1 && float64(c.spent) >= share*float64(c.Limit) {
			list = append(list, crossing{c, share})
		}
	}
	if c.spent >= c.Limit {
		list = append(list, crossing{c, 1})
	}
	return list
}

// The last column is whether a reached cap stayed reached until its period ended.
const selectCrossings = `
SELECT scope, period_start, epoch, share, limit_nano_usd, share = 1 AND (ended_at IS NULL OR ended_at >= period_end) IS TRUE FROM incidents
WHERE account_id = $1 AND kind = 'budget' AND scope = ANY($2) AND period_start = ANY($3)`

// knownCrossings returns those that were saved before.
func (w *Evaluator) knownCrossings(ctx context.Context, accountID schema.ID, crossed []crossing) (map[crossingKey]bool, error) {
	agents, starts := make([]string, len(crossed)), make([]time.Time, len(crossed))
	for i := range crossed {
		agents[i], starts[i] = crossed[i].Agent, crossed[i].window.Start
	}
	rows, _ := w.pool.Query(ctx, selectCrossings, accountID, agents, starts)
	known := map[crossingKey]bool{}
	var k crossingKey
	var untilTheEnd bool
	_, err := pgx.ForEachRow(rows, []any{&k.agent, &k.start, &k.epoch, &k.share, &k.limit, &untilTheEnd}, func() error {
		k.start = k.start.UTC()
		known[k] = true
		if untilTheEnd {
			known[k.untilTheEnd()] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read crossed thresholds: %w", err)
	}
	return known, nil
}

// The latest minute, or later quarter hour or hour, before which less than the threshold was spent. What arrived in the period is
// taken back from its end, so that what a reset has taken out does not count.
const selectReachedAt = `
SELECT bucket FROM (
  SELECT bucket, sum(sum(cost_nano_usd)) OVER (ORDER BY bucket DESC) AS since FROM arrivals
  WHERE account_id = $1 AND ($2 = '' OR agent = $2) AND bucket >= $3 AND bucket < $4 GROUP BY bucket
) AS t WHERE $5::numeric - since < $6 ORDER BY bucket DESC LIMIT 1`

// reachedAt returns when a threshold was reached, to the minute where that is still known. What crossed it before since was noted
// then, unless the cap is younger.
func (c *capsCheck) reachedAt(ctx context.Context, p *crossing) (time.Time, error) {
	from, latest := c.since.Truncate(time.Hour), c.now
	if from.Before(p.window.Start) {
		from = p.window.Start
	}
	if p.window.End.Before(latest) {
		latest = p.window.End
	}
	threshold := schema.NanoUSD(p.share * float64(p.Limit))
	var at time.Time
	err := c.pool.QueryRow(ctx, selectReachedAt, p.AccountID, p.Agent, from, latest, int64(p.spent), int64(threshold)).Scan(&at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return latest, nil
	case err != nil:
		return at, fmt.Errorf("find when a threshold was reached: %w", err)
	case p.UpdatedAt.After(at) && p.UpdatedAt.Before(latest):
		return p.UpdatedAt.UTC(), nil // A cap that is lowered below what is spent is reached then.
	}
	return at.UTC(), nil
}

// A unique index over the key of a crossing makes a second insert do nothing.
const insertCrossing = `
INSERT INTO incidents (incident_id, account_id, kind, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary,
  period_start, period_end, epoch, share, limit_nano_usd)
VALUES ($1, $2, 'budget', $3, 'budget_used', $4, $5, $6, $7, $7, $5, $8, $9, $10, $11, $12, $13)
ON CONFLICT DO NOTHING`

// errNoted is returned inside note for a crossing that is saved already.
var errNoted = errors.New("the crossing is saved already")

// note saves that a threshold was crossed, and notifies the account's channels. The incident of a reached cap stays open.
func (c *capsCheck) note(ctx context.Context, p *crossing) error {
	reached, err := c.reachedAt(ctx, p)
	if err != nil {
		return err
	}
	// A threshold below 1 is a moment; a cap that is reached lasts until its period ends or it is changed.
	ended := &reached
	if p.share >= 1 {
		if ended = nil; !p.window.End.After(c.now) {
			ended = &p.window.End
		}
	}
	id := schema.NewID(c.now)
	m := p.message(id, reached, c.now)
	err = c.leader.transaction(ctx, func(tx pgx.Tx) error {
		err := pgdb.Change(ctx, tx, "save crossed threshold", errNoted, insertCrossing, id, p.AccountID, m.Title, p.Agent, reached, ended,
			p.used(), m.Summary, p.window.Start, p.window.End, p.Epoch, p.share, int64(p.Limit))
		if err != nil {
			return err
		}
		return alert.NewStore(tx).NotifyAccount(ctx, p.AccountID, m)
	})
	switch {
	case errors.Is(err, errNoted):
		return nil
	case err == nil:
		c.metrics.transitions.WithLabelValues(string(m.Type)).Inc()
	}
	return err
}

// thresholdData is the data of budget.threshold and budget.exceeded.
type thresholdData struct {
	IncidentID string `json:"incident_id"`
	// Agent is null for the account's own cap.
	Agent *string `json:"agent"`
	// Share is the threshold and Used what is spent, both as parts of the cap: 1 is all of it.
	Share    float64        `json:"share"`
	Used     float64        `json:"used"`
	LimitUSD schema.NanoUSD `json:"limit_usd"`
	SpentUSD schema.NanoUSD `json:"spent_usd"`
	Period   budget.Period  `json:"period"`
	// PeriodStart and ResetsAt are null for a cap in total.
	PeriodStart *time.Time `json:"period_start"`
	ResetsAt    *time.Time `json:"resets_at"`
	ReachedAt   time.Time  `json:"reached_at"`
	Summary     string     `json:"summary"`
}

// soon is how old a crossed threshold may be for its message not to state when it was.
const soon = 2 * time.Minute

// inTime is how messages write a time.
const inTime = "2006-01-02 15:04 UTC"

// message returns what the account's channels are sent. reached is when the threshold was crossed.
func (p *crossing) message(id schema.ID, reached, now time.Time) *alert.Message {
	// The name of an agent is a client's: channels that have markup escape it.
	whose := "The account"
	if p.Agent != "" {
		whose = p.Agent
	}
	m := &alert.Message{
		Type: alert.BudgetThreshold, Cause: "budget " + id.Text(alert.IncidentPrefix), IncidentID: &id, At: now,
		Title: fmt.Sprintf("%s of the cap: %s", formatNumber(alert.BudgetUsed, p.share), whose),
	}
	if p.share >= 1 {
		m.Type, m.Title = alert.BudgetExceeded, "Cap reached: "+whose
	}
	m.Summary = fmt.Sprintf("%s has spent $%s of its cap of $%s", whose,
		formatNumber(alert.Cost, float64(p.spent)), formatNumber(alert.Cost, float64(p.Limit)))
	over := !p.window.End.After(now)
	if p.Period != budget.Total {
		m.Summary += " for the " + string(p.Period)
	}
	if over {
		m.Summary += " that ended at " + p.window.End.UTC().Format(inTime)
	}
	if over || now.Sub(reached) >= soon {
		m.Summary += fmt.Sprintf("; %s was reached at %s", formatNumber(alert.BudgetUsed, p.share), reached.UTC().Format(inTime))
	}
	d := thresholdData{
		IncidentID: id.Text(alert.IncidentPrefix), Share: p.share, Used: p.used(), LimitUSD: p.Limit, SpentUSD: p.spent,
		Period: p.Period, ReachedAt: reached.UTC(), Summary: m.Summary,
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
