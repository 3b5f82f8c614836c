package alerting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

const (
	// capsMargin is how much longer periods are checked after everything that arrived in them is stored: an event may be on its way
	// to Kafka for a while after it was received, and clocks differ.
	capsMargin = 15 * time.Minute
	// capsHorizon bounds how far back periods are checked after an outage. Kafka usually keeps events for a week.
	capsHorizon = 8 * 24 * time.Hour
)

// setCapsChecked saves up to when caps are checked, for the next leader. It never goes back, also when partitions are assigned anew.
const setCapsChecked = `UPDATE alert_leader SET caps_checked_until = greatest(caps_checked_until, $1)`

// checkCaps looks for caps whose spend has passed a threshold, in every period that events may have been stored into since the last
// check, and for reached caps that are not any more. They need no rule: the account's own channels are notified.
func (w *Evaluator) checkCaps(ctx context.Context) error {
	now := w.now().UTC().Truncate(time.Microsecond)
	since, until, err := w.capsChecked(ctx, now)
	if err != nil {
		return err
	}
	store := budget.NewStore(w.pool)
	budgets, err := store.All(ctx)
	if err != nil {
		return err
	}
	reached, err := w.reachedCaps(ctx)
	if err != nil {
		return err
	}
	// Accounts whose caps are gone are checked too, to end the incidents of those.
	of := map[schema.ID][]budget.Budget{}
	for i := range budgets {
		of[budgets[i].AccountID] = append(of[budgets[i].AccountID], budgets[i])
	}
	for accountID := range reached {
		if _, ok := of[accountID]; !ok {
			of[accountID] = nil // Its caps are all gone.
		}
	}
	// An account whose check fails does not keep the others from theirs.
	var failed error
	for accountID, list := range of {
		c := &capsCheck{w, store, accountID, since, now}
		err := c.run(ctx, list, reached[accountID])
		if errors.Is(err, errNotLeader) || ctx.Err() != nil {
			return err
		}
		failed = errors.Join(failed, err, w.leader.renew(ctx))
	}
	if failed != nil || until == nil {
		return failed
	}
	return w.leader.exec(ctx, "note how far caps are checked", setCapsChecked, *until)
}

// All partitions count: what one has not stored may belong to any period.
const selectCapsChecked = `
SELECT caps_checked_until, (
  SELECT CASE WHEN min(complete_until) > '-infinity' THEN min(complete_until) END FROM kafka_offsets WHERE topic = $1)
FROM alert_leader`

// capsChecked returns the time since which events may have been stored that no check has seen, by when they arrived, and the time up
// to which everything that arrived is stored now; nil when that is not known.
func (w *Evaluator) capsChecked(ctx context.Context, now time.Time) (since time.Time, until *time.Time, err error) {
	var checked *time.Time
	if err := w.pool.QueryRow(ctx, selectCapsChecked, w.topic).Scan(&checked, &until); err != nil {
		return since, nil, fmt.Errorf("read how far caps are checked: %w", err)
	}
	since = now
	if checked != nil && checked.Before(now) {
		since = *checked
	}
	if since = since.Add(-capsMargin); since.Before(now.Add(-capsHorizon)) {
		since = now.Add(-capsHorizon)
	}
	return since, until, nil
}

// capsCheck is a check of the caps of one account.
type capsCheck struct {
	*Evaluator
	store     *budget.Store
	accountID schema.ID
	// since is the time of arrival of the oldest events that no check has seen.
	since, now time.Time
}

// run saves the thresholds that were crossed and not saved before, and ends the incidents of caps that are not reached any more.
func (c *capsCheck) run(ctx context.Context, budgets []budget.Budget, reached []reachedCap) error {
	caps, err := c.spentCaps(ctx, c.store, c.accountID, c.periods(budgets))
	if err != nil {
		return err
	}
	present := map[string]*spentCap{}
	var crossed []crossing
	for i := range caps {
		if caps[i].window.Contains(c.now) {
			present[caps[i].Agent] = &caps[i]
		}
		crossed = append(crossed, caps[i].crossed()...)
	}
	lasting, err := c.endReached(ctx, reached, present)
	if err != nil || len(crossed) == 0 {
		return err
	}
	known, err := c.knownCrossings(ctx, c.accountID, crossed)
	if err != nil {
		return err
	}
	for i := range crossed {
		p := &crossed[i]
		is := known[p.key()]
		switch {
		case p.share >= 1 && p.window.Contains(c.now):
			is = lasting[p.Agent]
		case p.share >= 1:
			is = is || known[p.key().untilTheEnd()]
		}
		if !is {
			if err := c.note(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// capPeriod is a period of a cap.
type capPeriod struct {
	budget.Budget
	// window is the period's time; that of a cap in total has no end.
	window budget.Window
}

// periods lists the periods of caps that are to be checked: the present one, and those before it that events may have been stored
// into that no check has seen. Of a cap that was changed after a period's end it is not known what it was in that period.
func (c *capsCheck) periods(budgets []budget.Budget) []capPeriod {
	var list []capPeriod
	for i := range budgets {
		b := &budgets[i]
		for at := c.since; ; {
			window := b.Window(at)
			present := window.End.After(c.now)
			if present || b.UpdatedAt.Before(window.End) {
				list = append(list, capPeriod{*b, window})
			}
			if present {
				break
			}
			at = window.End
		}
	}
	return list
}
