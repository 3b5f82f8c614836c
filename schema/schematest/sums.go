package schematest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

const clearSums = `DELETE FROM usage_15m`

const sumEvents = `
INSERT INTO usage_15m (bucket, account_id, agent, model, provider, events, errors, unpriced_events, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd, latency_count, latency_sum_ms, latency_max_ms,
  latency_histogram, first_ts, last_ts)
SELECT date_bin('15 minutes', ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent, model, provider, count(*),
  count(*) FILTER (WHERE status = 'error'), count(*) FILTER (WHERE cost_source = 'unpriced'), sum(input_tokens), sum(output_tokens),
  sum(cache_read_tokens), sum(cache_write_tokens + cache_write_1h_tokens), sum(reasoning_tokens), sum(cost_nano_usd),
  count(latency_ms), coalesce(sum(latency_ms), 0), max(latency_ms), coalesce(sum(latency_histogram(latency_ms)), 0), min(ts), max(ts)
FROM events GROUP BY 1, 2, 3, 4, 5`

// SumEvents makes usage_15m anew from the events, for a test that inserts events without the processor.
func SumEvents(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
},
) error {
	for _, statement := range []string{clearSums, sumEvents} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("sum the events: %w", err)
		}
	}
	return nil
}
