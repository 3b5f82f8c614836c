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
	var sum Summary
	err := s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) error {
		byAgent, err := analyse(ctx, tx, accountID, &Question{Bounds: []time.Time{r.From, r.To}, ByAgent: true})
		if err != nil {
			return err
		}
		byModel, err := analyse(ctx, tx, accountID, &Question{Bounds: []time.Time{r.From, r.To}, ByModel: true, ByProvider: true})
		if err != nil {
			return err
		}
		before := r.Before()
		previous, err := analyse(ctx, tx, accountID, &Question{Bounds: []time.Time{before.From, before.To}})
		if err != nil {
			return err
		}
		sum = Summary{
			Totals: byAgent.Totals, Previous: previous.Totals, CompleteUntil: byAgent.CompleteUntil,
			TopAgents: dearest(byAgent.Rows), TopModels: dearest(byModel.Rows),
		}
		sum.Month, err = monthEnd(ctx, tx, accountID, now.UTC())
		return err
	})
	if err != nil {
		return Summary{}, fmt.Errorf("summarize usage: %w", err)
	}
	return sum, nil
}

// dearest returns the rows that cost most.
func dearest(rows []Row) []Row {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(b.CostUSD.Cmp(&a.CostUSD.Sum), compareRows(a, b)) })
	return rows[:min(topRows, len(rows))]
}

// paceDays is over how many days the pace of spending is taken.
const paceDays = 7

func monthEnd(ctx context.Context, tx pgx.Tx, accountID schema.ID, now time.Time) (m MonthEnd, err error) {
	m.Start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	m.End = m.Start.AddDate(0, 1, 0)
	until := NewRange(now, now.Add(quarter)).To
	month, err := analyse(ctx, tx, accountID, &Question{Bounds: []time.Time{m.Start, until}})
	if err != nil {
		return MonthEnd{}, err
	}
	days := NewRange(now.Add(-paceDays*day), until).splitByDay()
	week, err := analyse(ctx, tx, accountID, &Question{Bounds: days})
	if err != nil {
		return MonthEnd{}, err
	}
	m.Spent = month.Totals.CostUSD
	m.Projected.Add(&m.Spent.Sum)
	if len(week.Rows) > 0 && m.End.After(now) {
		first := days[week.Rows[0].Slot-1]
		rest := scaled(&week.Totals.CostUSD.Sum, m.End.Sub(now), max(time.Hour, now.Sub(first)))
		m.Projected.Add(&rest)
	}
	return m, nil
}

// scaled returns s times of divided by per, rounded down to a whole number.
func scaled(s *Sum, of, per time.Duration) (result Sum) {
	result.n.Mul(&s.n, big.NewInt(int64(of/time.Second)))
	result.n.Quo(&result.n, big.NewInt(int64(per/time.Second)))
	return result
}
