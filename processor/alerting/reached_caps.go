package alerting

import (
	"context"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// reachedCap is the incident of a cap that is reached.
type reachedCap struct {
	AccountID, IncidentID schema.ID
	// Scope is the agent, empty for the account's own cap.
	Scope                             string
	StartedAt, PeriodStart, PeriodEnd time.Time
	// Epoch is that of the cap when it was reached; a reset raises it.
	Epoch int32
	// Peak is the largest part of the cap that was spent; 1 is all of it.
	Peak float64
}

// An incident of kind budget that has not ended is that of a cap that is reached.
const selectReached = `
SELECT account_id, incident_id, scope, started_at, period_start, period_end, epoch, peak
FROM incidents WHERE kind = 'budget' AND ended_at IS NULL`

// reachedCaps reads the incidents of reached caps by account.
func (w *Evaluator) reachedCaps(ctx context.Context) (map[schema.ID][]reachedCap, error) {
	all, err := pgdb.Rows[reachedCap](ctx, w.pool, "read reached caps", selectReached)
	found := map[schema.ID][]reachedCap{}
	for _, r := range all {
		found[r.AccountID] = append(found[r.AccountID], r)
	}
	return found, err
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
		// now is nil when the cap was removed.
		now := present[r.Scope]
		end, ended := r.endedBy(now, c.now)
		lasting[r.Scope] = !ended
		switch {
		case ended:
			err = c.leader.exec(ctx, "end incident of a reached cap", endReachedCap, r.IncidentID, end)
		case now.used() > r.Peak:
			err = c.leader.exec(ctx, "raise peak of a reached cap", raisePeak, r.IncidentID, now.used(), c.now)
		}
		if err != nil {
			return nil, err
		}
	}
	return lasting, nil
}

// endedBy returns when an incident ended, if it has, given what its cap is at a time; nil for none.
func (r *reachedCap) endedBy(present *spentCap, now time.Time) (time.Time, bool) {
	switch {
	case !r.PeriodEnd.After(now):
		return r.PeriodEnd, true
	case present == nil:
		return now, true
	case present.Epoch != r.Epoch:
		return now, true // The time of the reset is in its own row.
	case !present.window.Start.Equal(r.PeriodStart), present.spent < present.Limit:
		// The cap was changed, or costs were corrected, which changes nothing of the cap.
		if at := present.UpdatedAt; at.After(r.StartedAt) && at.Before(now) {
			return at.UTC(), true
		}
		return now, true
	}
	return time.Time{}, false
}
