package reprice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/reprice"
)

// SQLSTATEs raised by the functions that save a slice.
const (
	stateGivenUp = "OL011" // another try has taken the job
	stateMoved   = "OL012" // the job, or an event, is not as it was read
)

// move_reprice moves the job behind the slice and adds its differences, or raises if another try has.
const moveOn = `
SELECT move_reprice($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::date[], $11, $12, $13, $14, $15, $16, $17)`

// correctAndMoveOn is one statement, so that a processor that is stopped anywhere holds no lock while it is stopped.
const correctAndMoveOn = moveOn + `,
  correct_events($1, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)`

// save moves the job on by a slice, and corrects its events unless it is a dry run. It returns job.ErrLost.
func (r *Repricer) save(ctx context.Context, try int, state *reprice.State, s *slice) error {
	statement, args := moveOn, s.moveArgs(try, state)
	if len(s.changes) > 0 && !state.DryRun {
		statement, args = correctAndMoveOn, append(args, s.correctArgs(state)...)
	}
	_, err := r.Pool.Exec(ctx, statement, args...)
	if pgdb.SQLState(err) == stateGivenUp {
		return fmt.Errorf("%w: %w", job.ErrLost, err)
	}
	return err
}

// moveArgs returns the arguments of move_reprice. Groups are sorted so that tries lock their rows in the same order.
func (s *slice) moveArgs(try int, state *reprice.State) []any {
	groups := slices.SortedFunc(maps.Keys(s.differences), func(a, b group) int {
		return cmp.Or(a.day.Compare(b.day), cmp.Compare(a.provider, b.provider), cmp.Compare(a.model, b.model))
	})
	n := len(groups)
	days, providers, models := make([]time.Time, n), make([]string, n), make([]string, n)
	events, before, after := make([]int64, n), make([]int64, n), make([]int64, n)
	were, are := make([]int64, n), make([]int64, n)
	for i, g := range groups {
		d := s.differences[g]
		days[i], providers[i], models[i] = g.day, g.provider, g.model
		events[i], before[i], after[i], were[i], are[i] = d.events, d.before, d.after, d.unpricedBefore, d.unpricedAfter
	}
	return []any{
		state.JobID, try, state.Slice, s.next.Time, s.next.Event, s.next.Partition, s.next.Offset, s.events, s.tooLarge,
		days, providers, models, events, before, after, were, are,
	}
}

// correctArgs returns the arguments of correct_events after the account: what the events were and what they become. It raises
// unless every event is as it was read.
func (s *slice) correctArgs(state *reprice.State) []any {
	n := len(s.changes)
	times, ids := make([]time.Time, n), make([]schema.ID, n)
	partitions, offsets := make([]int32, n), make([]int64, n)
	formerCosts, formerSources, formerPrices := make([]int64, n), make([]string, n), make([]*string, n)
	costs, sources, prices, breakdowns := make([]int64, n), make([]string, n), make([]*string, n), make([]*string, n)
	for i := range s.changes {
		c := &s.changes[i]
		times[i], ids[i], partitions[i], offsets[i] = c.Time, c.Event, c.Partition, c.Offset
		formerCosts[i], formerSources[i] = c.cost, string(c.source)
		if c.priceID != "" {
			formerPrices[i] = &c.priceID
		}
		costs[i], sources[i] = c.quote.CostNanoUSD, string(c.quote.Source)
		if c.quote.Source == price.Calculated {
			breakdown := string(price.AppendBreakdown(nil, &c.quote))
			prices[i], breakdowns[i] = &c.quote.PriceID, &breakdown
		}
	}
	return []any{
		state.AccountID, times, ids, partitions, offsets, formerCosts, formerSources, formerPrices, costs, sources, prices, breakdowns,
		slices.ContainsFunc(s.changes, func(c change) bool { return c.implicit }),
	}
}

const (
	// maxTries bounds how often a slice is tried before the whole job is put back.
	maxTries = 8
	// firstWait and longestWait bound the wait between two of them.
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// passing reports whether an error may be gone at the next try: others were in the way, or the database was away.
func passing(err error) bool {
	switch state := pgdb.SQLState(err); {
	case errors.Is(err, job.ErrLost):
		return false
	case state == stateMoved:
		return true
	case len(state) != 5:
		return true // Not an answer of the database.
	default:
		// Transaction rollback, resources, operator intervention, locks not to be had.
		return slices.Contains([]string{"40", "53", "55", "57", "58"}, state[:2])
	}
}
