package usage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// UnpricedModel is a model whose calls could not be priced.
type UnpricedModel struct {
	// Provider and Model are empty when nobody said.
	Provider, Model           string
	Events                    int64
	InputTokens, OutputTokens Sum
	// Agents are those that called it, by name.
	Agents []string
	// LastSeen is the time of the last such call.
	LastSeen Time
}

// UnpricedQuery says which models are wanted.
type UnpricedQuery struct {
	Range Range
	// After is the model that the page follows, nil for the first page.
	After *UnpricedPosition
	Limit int
}

// UnpricedPosition is a model's place in the list.
type UnpricedPosition struct {
	Events          int64
	Provider, Model string
}

// selectUnpriced takes whole days and edges as selectDaysAndEdges does. Where all events
// of a row are without a price, the row has the tokens; only where some are, the events
// themselves are read, from the first such row to the last.
const selectUnpriced = `
WITH parts AS (
	SELECT bucket, interval '1 day' AS width, agent, provider, model, events, unpriced_events, input_tokens, output_tokens, last_ts
	FROM usage_daily WHERE account_id = $1 AND bucket >= $4 AND bucket < $5
	UNION ALL
	SELECT bucket, interval '15 minutes', agent, provider, model, events, unpriced_events, input_tokens, output_tokens, last_ts
	FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $4
	UNION ALL
	SELECT bucket, interval '15 minutes', agent, provider, model, events, unpriced_events, input_tokens, output_tokens, last_ts
	FROM usage_15m WHERE account_id = $1 AND bucket >= $5 AND bucket < $3
), concerned AS MATERIALIZED (
	SELECT * FROM parts WHERE unpriced_events > 0
), mixed AS MATERIALIZED (
	SELECT * FROM concerned WHERE unpriced_events < events
), found AS (
	SELECT agent, provider, model, events, input_tokens, output_tokens, last_ts FROM concerned WHERE unpriced_events = events
	UNION ALL
	SELECT e.agent, e.provider, e.model, count(*), sum(e.input_tokens), sum(e.output_tokens), max(e.ts)
	FROM events e JOIN mixed m
		ON e.agent = m.agent AND e.provider = m.provider AND e.model = m.model AND e.ts >= m.bucket AND e.ts < m.bucket + m.width
	WHERE e.account_id = $1 AND e.cost_source = 'unpriced'
		AND e.ts >= (SELECT min(bucket) FROM mixed) AND e.ts < (SELECT max(bucket + width) FROM mixed)
	GROUP BY 1, 2, 3
), models AS (
	SELECT provider COLLATE "C" AS provider, model COLLATE "C" AS model, sum(events)::bigint AS events,
		sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
		array_agg(DISTINCT agent ORDER BY agent) AS agents, max(last_ts) AS last_seen
	FROM found GROUP BY 1, 2
)
SELECT provider, model, events, input_tokens, output_tokens, agents, last_seen FROM models
WHERE $6::bigint IS NULL OR (-events, provider, model) > (-$6, $7, $8)
ORDER BY events DESC, provider, model LIMIT $9`

// Unpriced returns a page of the models without a price, the most frequent first, and
// up to when everything that was accepted is in it.
func (s *Store) Unpriced(ctx context.Context, accountID schema.ID, q *UnpricedQuery) (models []UnpricedModel, until Time, err error) {
	var events *int64
	var provider, model *string
	if q.After != nil {
		events, provider, model = &q.After.Events, &q.After.Provider, &q.After.Model
	}
	dayFrom, dayTo := q.Range.days()
	err = s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(selectUnpriced, accountID, q.Range.From, q.Range.To, dayFrom, dayTo, events, provider, model, q.Limit).Query(func(rows pgx.Rows) (err error) {
			models, err = pgx.CollectRows(rows, pgx.RowToStructByName[UnpricedModel])
			return err
		})
		queueCompleteUntil(b, &until)
	})
	if err != nil {
		return nil, Time{}, fmt.Errorf("list unpriced models: %w", err)
	}
	return models, until, nil
}
