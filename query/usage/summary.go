package usage

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Summary is an account's usage at a glance.
type Summary struct {
	Totals Measures
	// Previous is what the time of the same length before adds up to.
	Previous Measures
	// TopAgents and TopModels are the dearest first.
	TopAgents, TopModels []Row
	CompleteUntil        Time
	Month                MonthEnd
}

// MonthEnd is where the spend of the running UTC month is heading.
type MonthEnd struct {
	Start, End time.Time
	Spent      USD
	// Projected is Spent and, for the rest of the month, as much a second as in the
	// last seven days, or since the day of the first event when that is less.
	Projected USD
}

// topRows is how many agents and models a summary names.
const topRows = 10

// Summarize sums an account up over r, and its month up to now.
func (s *Store) Summarize(ctx context.Context, accountID schema.ID, r Range, now time.Time) (Summary, error) {
	var byAgent, byModel, previous Answer
	pace := newPace(now.UTC())
	before := r.Before()
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		queueAnalysis(b, accountID, &Question{Bounds: []time.Time{r.From, r.To}, ByAgent: true}, &byAgent)
		queueAnalysis(b, accountID, &Question{Bounds: []time.Time{r.From, r.To}, ByModel: true, ByProvider: true}, &byModel)
		queueAnalysis(b, accountID, &Question{Bounds: []time.Time{before.From, before.To}}, &previous)
		pace.queue(b, accountID)
	})
	if err != nil {
		return Summary{}, fmt.Errorf("summarize usage: %w", err)
	}
	return Summary{
		Totals: byAgent.Totals, Previous: previous.Totals, CompleteUntil: byAgent.CompleteUntil,
		TopAgents: dearest(byAgent.Rows), TopModels: dearest(byModel.Rows), Month: pace.monthEnd(),
	}, nil
}

// dearest returns the rows that cost most.
func dearest(rows []Row) []Row {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(b.CostUSD.Cmp(&a.CostUSD.Sum), compareRows(&a, &b)) })
	return rows[:min(topRows, len(rows))]
}

// paceDays is over how many days the pace of spending is taken.
const paceDays = 7

// pace is what the end of the month is estimated from.
type pace struct {
	now, start, end time.Time
	days            []time.Time
	month, week     Answer
}

func newPace(now time.Time) *pace {
	p := &pace{now: now, start: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)}
	p.end = p.start.AddDate(0, 1, 0)
	p.days = NewRange(now.Add(-paceDays*day), p.until()).splitByDay()
	return p
}

// until is the end of the quarter hour that is running.
func (p *pace) until() time.Time { return NewRange(p.now, p.now.Add(quarter)).To }

func (p *pace) queue(b *pgx.Batch, accountID schema.ID) {
	queueAnalysis(b, accountID, &Question{Bounds: []time.Time{p.start, p.until()}}, &p.month)
	queueAnalysis(b, accountID, &Question{Bounds: p.days}, &p.week)
}

func (p *pace) monthEnd() MonthEnd {
	m := MonthEnd{Start: p.start, End: p.end, Spent: p.month.Totals.CostUSD}
	m.Projected.Add(&m.Spent.Sum)
	if len(p.week.Rows) > 0 && p.end.After(p.now) {
		first := p.days[p.week.Rows[0].Slot-1]
		rest := scaled(&p.week.Totals.CostUSD.Sum, p.end.Sub(p.now), max(time.Hour, p.now.Sub(first)))
		m.Projected.Add(&rest)
	}
	return m
}

// scaled returns s times of divided by per, rounded down to a whole number.
func scaled(s *Sum, of, per time.Duration) Sum {
	n := s.Int()
	n.Mul(n, big.NewInt(int64(of/time.Second)))
	return sumOf(n.Quo(n, big.NewInt(int64(per/time.Second))))
}
