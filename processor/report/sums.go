package report

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is what a question about sums answers. Which names and whether slot is set depends on the question.
type row struct {
	slot                   int
	agent, provider, model string
	Figures
}

const day = 24 * time.Hour

// usageSums are the columns of every question about what was used.
const usageSums = `
	coalesce(sum(events), 0)::bigint, coalesce(sum(errors), 0)::bigint, coalesce(sum(unpriced_events), 0)::bigint,
	sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_nano_usd)`

// daysAndEdges takes whole UTC days from the daily relation, and what is left before and after them from the quarter hours, so
// that a month costs some thirty rows for each group and any period is exact.
const daysAndEdges = `
FROM (
	SELECT * FROM usage_daily WHERE account_id = $1 AND bucket >= $4 AND bucket < $5
	UNION ALL
	SELECT * FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $4
	UNION ALL
	SELECT * FROM usage_15m WHERE account_id = $1 AND bucket >= $5 AND bucket < $3
) AS parts
WHERE ($6::text[] IS NULL OR agent = ANY ($6))`

const (
	selectWhole   = `SELECT 0, '', '', '',` + usageSums + daysAndEdges
	selectByAgent = `SELECT 0, agent, '', '',` + usageSums + daysAndEdges + ` GROUP BY agent`
	selectByModel = `SELECT 0, '', provider, model,` + usageSums + daysAndEdges + ` GROUP BY provider, model`
)

// sums asks one of these between two times.
func (rd *reader) sums(ctx context.Context, statement string, from, to time.Time, each func(*row)) error {
	wholeFrom, wholeTo := wholeDays(from, to)
	rows, _ := rd.tx.Query(ctx, statement, rd.account, from, to, wholeFrom, wholeTo, rd.agents)
	return eachUsage(rows, each)
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

func eachUsage(rows pgx.Rows, each func(*row)) error {
	var r row
	_, err := pgx.ForEachRow(rows, []any{
		&r.slot, &r.agent, &r.provider, &r.model, &r.Events, &r.Errors, &r.Unpriced,
		&r.InputTokens, &r.OutputTokens, &r.CacheTokens, &r.Cost,
	}, func() error {
		each(&r)
		return nil
	})
	return err
}

const (
	slotsHead = `SELECT width_bucket(bucket, $4::timestamptz[]), '', '', '',` + usageSums + ` FROM `
	slotsTail = `
WHERE account_id = $1 AND bucket >= $2 AND bucket < $3 AND ($5::text[] IS NULL OR agent = ANY ($5))
GROUP BY 1`

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
	rows, _ := rd.tx.Query(ctx, statement, rd.account, rd.from, rd.to, bounds, rd.agents)
	return eachUsage(rows, each)
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

// Refused events are counted when they arrive, which is when they were refused.
const (
	refusedSums = `coalesce(sum(events), 0)::bigint, sum(cost_nano_usd)`
	refusedTail = `
FROM refused_events
WHERE account_id = $1 AND bucket >= $2 AND bucket < $3 AND ($4::text[] IS NULL OR agent = ANY ($4))`

	selectRefusedWhole   = `SELECT 0, '', '', '', ` + refusedSums + refusedTail
	selectRefusedByAgent = `SELECT 0, agent, '', '', ` + refusedSums + refusedTail + ` GROUP BY agent`
	selectRefusedByModel = `SELECT 0, '', provider, model, ` + refusedSums + refusedTail + ` GROUP BY provider, model`
	selectRefusedSlots   = `SELECT width_bucket(bucket, $5::timestamptz[]), '', '', '', ` + refusedSums + refusedTail + ` GROUP BY 1`
)

func (rd *reader) refused(ctx context.Context, statement string, from, to time.Time, each func(*row)) error {
	rows, _ := rd.tx.Query(ctx, statement, rd.account, from, to, rd.agents)
	return eachRefused(rows, each)
}

func (rd *reader) refusedSlots(ctx context.Context, bounds []time.Time, each func(*row)) error {
	rows, _ := rd.tx.Query(ctx, selectRefusedSlots, rd.account, rd.from, rd.to, rd.agents, bounds)
	return eachRefused(rows, each)
}

func eachRefused(rows pgx.Rows, each func(*row)) error {
	var r row
	_, err := pgx.ForEachRow(rows, []any{&r.slot, &r.agent, &r.provider, &r.model, &r.Refused, &r.RefusedCost}, func() error {
		each(&r)
		return nil
	})
	return err
}
