package report

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a row of a question about sums. Which names and whether slot is set depends on the question.
type row struct {
	slot                   int
	agent, provider, model string
	Figures
}

const day = 24 * time.Hour

// Every question about sums adds up these columns of the same rows: what was used, and what caps refused. Refused events are counted
// when they arrive, which is when they were refused.
const (
	sums = `
	coalesce(sum(events), 0)::bigint, coalesce(sum(errors), 0)::bigint, coalesce(sum(unpriced_events), 0)::bigint,
	coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0), coalesce(sum(cost_nano_usd), 0),
	coalesce(sum(refused), 0)::bigint, coalesce(sum(refused_nano_usd), 0)`

	used = `SELECT bucket, agent, provider, model, events, errors, unpriced_events, input_tokens, output_tokens, cache_read_tokens,
		cost_nano_usd, 0 AS refused, 0 AS refused_nano_usd`

	refused = `
	UNION ALL
	SELECT bucket, agent, provider, model, 0, 0, 0, 0, 0, 0, 0, events, cost_nano_usd FROM refused_events
	WHERE account_id = $1 AND bucket >= $2 AND bucket < $3
) AS parts
WHERE ($4::text[] IS NULL OR agent = ANY ($4))`
)

// daysAndEdges takes whole UTC days from the daily relation, and what is left before and after them from the quarter hours, so
// that a month costs some thirty rows for each group and any period is exact.
const daysAndEdges = `
FROM (
	` + used + ` FROM usage_daily WHERE account_id = $1 AND bucket >= $5 AND bucket < $6
	UNION ALL
	` + used + ` FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $5
	UNION ALL
	` + used + ` FROM usage_15m WHERE account_id = $1 AND bucket >= $6 AND bucket < $3` + refused

const (
	selectWhole   = `SELECT 0, '', '', '',` + sums + daysAndEdges
	selectByAgent = `SELECT 0, agent, '', '',` + sums + daysAndEdges + ` GROUP BY agent`
	selectByModel = `SELECT 0, '', provider, model,` + sums + daysAndEdges + ` GROUP BY provider, model`
)

// sums asks one of these between two times.
func (rd *reader) sums(ctx context.Context, statement string, from, to time.Time, each func(*row)) error {
	wholeFrom, wholeTo := wholeDays(from, to)
	return rd.each(ctx, each, statement, rd.account, from, to, rd.agents, wholeFrom, wholeTo)
}

// wholeDays returns the whole UTC days between two times. Without any, all lies before them.
func wholeDays(from, to time.Time) (wholeFrom, wholeTo time.Time) {
	wholeFrom, wholeTo = from.Truncate(day), to.Truncate(day)
	if wholeFrom.Before(from) {
		wholeFrom = wholeFrom.Add(day)
	}
	if !wholeFrom.Before(wholeTo) {
		return to, to
	}
	return wholeFrom, wholeTo
}

// each runs a query and calls each with its rows. The row is used again for the next one.
func (rd *reader) each(ctx context.Context, each func(*row), statement string, args ...any) error {
	var r row
	rows, _ := rd.tx.Query(ctx, statement, args...)
	_, err := pgx.ForEachRow(rows, []any{
		&r.slot, &r.agent, &r.provider, &r.model, &r.Events, &r.Errors, &r.Unpriced,
		&r.InputTokens, &r.OutputTokens, &r.CacheTokens, &r.Cost, &r.Refused, &r.RefusedCost,
	}, func() error {
		each(&r)
		return nil
	})
	return err
}

const (
	slotsHead = `SELECT width_bucket(bucket, $5::timestamptz[]), '', '', '',` + sums + ` FROM (` + used + ` FROM `
	slotsTail = ` WHERE account_id = $1 AND bucket >= $2 AND bucket < $3` + refused + ` GROUP BY 1`

	selectDays     = slotsHead + `usage_daily` + slotsTail
	selectHours    = slotsHead + `usage_hourly` + slotsTail
	selectQuarters = slotsHead + `usage_15m` + slotsTail
)

// slots asks for sums between each two bounds, from the coarsest relation whose buckets never straddle one. Slots count from 1.
func (rd *reader) slots(ctx context.Context, bounds []time.Time, each func(*row)) error {
	statement := selectQuarters
	switch {
	case aligned(bounds, day):
		statement = selectDays
	case aligned(bounds, time.Hour):
		statement = selectHours
	}
	return rd.each(ctx, each, statement, rd.account, rd.from, rd.to, rd.agents, bounds)
}

// aligned reports whether all times are whole multiples of d in UTC.
func aligned(times []time.Time, d time.Duration) bool {
	for _, t := range times {
		if t.Unix()%int64(d/time.Second) != 0 {
			return false
		}
	}
	return true
}
