package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/report"
)

// reader reads the figures of one report in one snapshot.
type reader struct {
	// tx is read only and repeatable, so that all figures agree.
	tx      pgx.Tx
	account schema.ID
	// agents filters; nil: all.
	agents   []string
	from, to time.Time
	before   time.Time // The period before begins here and is as long.
	asOf     time.Time
}

// before returns when the period before a report's begins.
func before(r *report.Report) time.Time { return r.From.Add(-r.To.Sub(r.From)) }

// Read reads the statement of a report. Every sum is of the same snapshot, and so is whether everything that was accepted before
// asOf is in them.
func Read(ctx context.Context, pool *pgxpool.Pool, r *report.Report, asOf time.Time) (*Statement, error) {
	s := &Statement{
		Request: r.Request, AccountID: r.AccountID.Text(schema.AccountPrefix), ReportID: r.ID.Text(report.Prefix),
		GeneratedAt: r.CreatedAt.UTC(),
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		rd := &reader{tx: tx, account: r.AccountID, from: r.From, to: r.To, before: before(r), asOf: asOf}
		if len(r.Agents) > 0 {
			rd.agents = r.Agents
		}
		return rd.read(ctx, s)
	})
	if err != nil {
		return nil, fmt.Errorf("read the figures of report %s: %w", s.ReportID, err)
	}
	return s, nil
}

// The name may be another one than when the report was asked for.
const selectAccount = `SELECT name FROM accounts WHERE id = $1`

// read fills in all figures. The order matters: totals are the sum of the models, and caps need the lines of agents.
func (rd *reader) read(ctx context.Context, s *Statement) (err error) {
	if err := rd.tx.QueryRow(ctx, selectAccount, rd.account).Scan(&s.AccountName); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	c, err := readCompleteness(ctx, rd.tx)
	if err != nil {
		return err
	}
	s.Complete, s.CompleteUntil = c.covers(rd.asOf), c.Time
	if s.ByAgent, err = rd.lines(ctx, selectByAgent); err != nil {
		return fmt.Errorf("by agent: %w", err)
	}
	if s.ByModel, err = rd.lines(ctx, selectByModel); err != nil {
		return fmt.Errorf("by model: %w", err)
	}
	for i := range s.ByModel {
		s.Totals.add(&s.ByModel[i].Figures)
	}
	if s.Previous, err = rd.whole(ctx, rd.before, rd.from); err != nil {
		return fmt.Errorf("period before: %w", err)
	}
	if s.Days, err = rd.days(ctx, s.Timezone); err != nil {
		return fmt.Errorf("by day: %w", err)
	}
	s.Unpriced = unpriced(s.ByModel)
	if s.Caps, err = rd.caps(ctx, s); err != nil {
		return fmt.Errorf("caps: %w", err)
	}
	s.Prices, s.PricesUnknown, err = rd.prices(ctx, s.Totals.Events)
	return err
}

// lines reads what each agent or each model did, and what it had cost in the period before.
func (rd *reader) lines(ctx context.Context, statement string) ([]Line, error) {
	type key struct{ agent, provider, model string }
	// An agent that did nothing in the period has no line, whatever it cost before.
	before := map[key]amount{}
	err := rd.sums(ctx, statement, rd.before, rd.from, func(r *row) { before[key{r.agent, r.provider, r.model}] = r.Cost })
	if err != nil {
		return nil, err
	}
	lines := []Line{}
	err = rd.sums(ctx, statement, rd.from, rd.to, func(r *row) {
		lines = append(lines, Line{r.agent, r.provider, r.model, r.Figures, before[key{r.agent, r.provider, r.model}]})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(b.Cost.cmp(&a.Cost), cmp.Compare(b.Events, a.Events),
			cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return lines, nil
}

// whole reads what everything adds up to between two times.
func (rd *reader) whole(ctx context.Context, from, to time.Time) (f Figures, err error) {
	err = rd.sums(ctx, selectWhole, from, to, func(r *row) { f = r.Figures })
	return f, err
}

// days reads the days of the period, those without events too.
func (rd *reader) days(ctx context.Context, zone string) ([]Day, error) {
	// Days have 23 to 25 hours, and the first and last may be cut.
	bounds := dayBounds(rd.from, rd.to, zone)
	days := make([]Day, len(bounds)-1)
	for i := range days {
		days[i].Start = bounds[i]
	}
	err := rd.slots(ctx, bounds, func(r *row) { days[r.slot-1].Figures = r.Figures })
	return days, err
}

// dayBounds returns from, every first moment of a local day behind it, and to.
func dayBounds(from, to time.Time, zone string) []time.Time {
	bounds := []time.Time{from}
	days := budget.Budget{Period: budget.Day, Timezone: zone}
	for t := days.Window(from).End; t.Before(to); t = days.Window(t).End {
		bounds = append(bounds, t)
	}
	return append(bounds, to)
}

// unpriced returns the models with events that have no price, those with the most first.
func unpriced(models []Line) []Line {
	var found []Line
	for _, l := range models {
		if l.Unpriced > 0 {
			found = append(found, l)
		}
	}
	slices.SortStableFunc(found, func(a, b Line) int { return cmp.Compare(b.Unpriced, a.Unpriced) })
	return found
}
