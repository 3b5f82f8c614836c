package reprice

import (
	"context"
	"encoding/json"

	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/reprice"
)

// maxRows bounds the rows of a result. Those with the largest differences are kept.
const maxRows = 10_000

// selectResult is JSON as people read it; the totals are those of all rows. Sums in nano-dollars become dollars without a float.
const selectResult = `
WITH d AS (
  SELECT day, provider, model, events, unpriced_before, unpriced_after, after_nano_usd - before_nano_usd AS change,
    trim_scale(before_nano_usd * 0.000000001) AS before_usd, trim_scale(after_nano_usd * 0.000000001) AS after_usd,
    trim_scale((after_nano_usd - before_nano_usd) * 0.000000001) AS difference_usd
  FROM reprice_differences WHERE account_id = $1 AND job_id = $2
), shown AS (
  SELECT * FROM d ORDER BY abs(change) DESC, day, provider, model LIMIT $3
)
SELECT json_build_object(
  'events', r.events, 'changed', coalesce(sum(d.events), 0), 'too_large', r.too_large,
  'before_usd', trim_scale(coalesce(sum(d.before_usd), 0)), 'after_usd', trim_scale(coalesce(sum(d.after_usd), 0)),
  'difference_usd', trim_scale(coalesce(sum(d.difference_usd), 0)),
  'unpriced_before', coalesce(sum(d.unpriced_before), 0), 'unpriced_after', coalesce(sum(d.unpriced_after), 0),
  'by_day_and_model', (
    SELECT coalesce(json_agg(json_build_object(
      'day', day, 'provider', nullif(provider, ''), 'model', nullif(model, ''), 'events', events,
      'before_usd', before_usd, 'after_usd', after_usd, 'difference_usd', difference_usd,
      'unpriced_before', unpriced_before, 'unpriced_after', unpriced_after) ORDER BY day, provider COLLATE "C", model COLLATE "C"), '[]')
    FROM shown),
  'rows_left_out', greatest(count(d.day) - $3, 0))
FROM reprices r LEFT JOIN d ON true
WHERE r.account_id = $1 AND r.job_id = $2
GROUP BY r.job_id`

// result returns what the job found.
func (r *Repricer) result(ctx context.Context, state *reprice.State) (json.RawMessage, error) {
	return pgdb.Value[json.RawMessage](ctx, r.Pool, "add the differences up", selectResult, state.AccountID, state.JobID, maxRows)
}
