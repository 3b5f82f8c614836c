package alerting

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// reachedCap is the incident of a cap that is reached.
type reachedCap struct {
	id schema.ID
	// agent is empty for the account's own cap.
	agent                             string
	startedAt, periodStart, periodEnd time.Time
	// epoch is that of the cap when it was reached; a reset raises it.
	epoch int32
	// peak is the largest part of the cap that was spent; 1 is all of it.
	peak float64
}

const selectReached = `
SELECT account_id, incident_id, scope, started_at, period_start, period_end, epoch, peak
FROM incidents WHERE kind = 'budget' AND ended_at IS NULL`

// reachedCaps reads the incidents of reached caps by account.
func (w *Evaluator) reachedCaps(ctx context.Context) (map[schema.ID][]reachedCap, error) {
	rows, _ := w.pool.Query(ctx, selectReached)
	found := map[schema.ID][]reachedCap{}
	var accountID schema.ID
	var r reachedCap
	_, err := pgx.ForEachRow(rows, []any{&accountID, &r.id, &r.agent, &r.startedAt, &r.periodStart, &r.periodEnd, &r.epoch, &r.peak}, func() error {
		found[accountID] = append(found[accountID], r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read reached caps: %w", err)
	}
	return found, nil
}

// A reset ended the incident when it was made.
const endReachedCap = `
UPDATE incidents i SET ended_at = greatest(i.started_at, coalesce((
  SELECT min(r.at) FROM budget_resets r WHERE r.account_id = i.account_id AND r.agent = i.scope AND r.epoch > i.epoch AND r.at < $2), $2))
WHERE incident_id = $1 AND ended_at IS NULL`

// endReached ends the incidents of caps that are not reached any more, and returns the agents of the others. Nobody is notified:
// who raised or reset the cap knows, and a period ends when it was expected to.
func (c *capsCheck) endReached(ctx context.Context, reached []reachedCap, present map[string]*spentCap) (lasting map[string]bool, err error) {
	lasting = map[string]bool{}
	for i := range reached {
		r := &reached[i]
		now := present[r.agent]
		end, ended := r.endedBy(now, c.now)
		switch {
		case ended:
			err = c.leader.transaction(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, endReachedCap, r.id, end)
				return err
			})
		case now.used() > r.peak:
			lasting[r.agent] = true
			err = c.leader.transaction(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, raisePeak, r.id, now.used(), c.now)
				return err
			})
		default:
			lasting[r.agent] = true
		}
		if err != nil {
			return nil, fmt.Errorf("change incident of a reached cap: %w", err)
		}
	}
	return lasting, nil
}

// endedBy returns when an incident ended, if it has, given what its cap is at a time; nil for none.
func (r *reachedCap) endedBy(present *spentCap, now time.Time) (time.Time, bool) {
	switch {
	case !r.periodEnd.After(now):
		return r.periodEnd, true
	case present == nil:
		return now, true
	case present.Epoch != r.epoch:
		return now, true // The time of the reset is in its own row.
	case !present.window.Start.Equal(r.periodStart), present.spent < present.Limit:
		// The cap was changed, or costs were corrected, which changes nothing of the cap.
		if at := present.UpdatedAt; at.After(r.startedAt) && at.Before(now) {
			return at.UTC(), true
		}
		return now, true
	}
	return time.Time{}, false
}
