package usage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Agent is what an agent did between two times.
type Agent struct {
	Name string
	Measures
	Sessions            int64
	RefusedEvents       int64
	RefusedCostUSD      USD
	FirstSeen, LastSeen Time
	Models              []string
	// SortKey is what the list is ordered by, before the name.
	SortKey Sum
}

// AgentOrder is what a list of agents is ordered by.
type AgentOrder string

// The orders of agents.
const (
	AgentsByCost     AgentOrder = "cost_usd"
	AgentsByEvents   AgentOrder = "events"
	AgentsByName     AgentOrder = "name"
	AgentsByLastSeen AgentOrder = "last_seen"
)

// AgentQuery says which agents are wanted.
type AgentQuery struct {
	// Range is when the events happened.
	Range Range
	// Text is a part of the name, in any case of letters; Name is all of it. Nil
	// filters nothing.
	Text, Name *string
	Order      AgentOrder
	Descending bool
	// After is the agent that the page follows, nil for the first page.
	After *AgentPosition
	Limit int
}

// AgentPosition is an agent's place in the list.
type AgentPosition struct {
	SortKey string
	Name    string
}

// agentTotals takes whole days and edges as selectDaysAndEdgesOfAgents does.
const agentTotals = `
WITH parts AS NOT MATERIALIZED (
	SELECT agent, ` + measureColumns + `, first_ts, last_ts, models
	FROM usage_daily_agents WHERE account_id = $1 AND bucket >= $4 AND bucket < $5
	UNION ALL
	SELECT agent, ` + measureColumns + `, first_ts, last_ts, ARRAY[model]
	FROM usage_15m WHERE account_id = $1 AND bucket >= $2 AND bucket < $4
	UNION ALL
	SELECT agent, ` + measureColumns + `, first_ts, last_ts, ARRAY[model]
	FROM usage_15m WHERE account_id = $1 AND bucket >= $5 AND bucket < $3
), totals AS (
	SELECT agent,` + usageColumns + `, min(first_ts) AS first_seen, max(last_ts) AS last_seen
	FROM parts
	WHERE ($6::text IS NULL OR strpos(lower(agent), lower($6)) > 0) AND ($7::text IS NULL OR agent = $7)
	GROUP BY agent
), keyed AS (
	SELECT *, CASE $8 WHEN 'cost_usd' THEN cost_usd WHEN 'events' THEN events::numeric
			WHEN 'last_seen' THEN trunc(extract(epoch FROM last_seen) * 1000000) ELSE 0 END AS sort_key
	FROM totals
), page AS MATERIALIZED (
	SELECT * FROM keyed`

// agentPage adds to the agents of a page what is counted elsewhere. A session counts
// where it overlaps the range. IS TRUE keeps the agents of a page a look-up: as a
// join, planned for the few rows of a new database, each of many agents would be
// compared with each.
const agentPage = `
), pending AS MATERIALIZED (` + pendingSessions + `
), joined AS (
	SELECT name AS agent, count(*) AS sessions
	FROM (
		SELECT agents FROM` + overlapping + ` WHERE` + nothingPending + `
		UNION ALL
		SELECT agents FROM pending WHERE started_at < $3 AND ended_at >= $2
	) AS sessions, unnest(agents) AS name
	WHERE (name IN (SELECT agent FROM page)) IS TRUE
	GROUP BY name
), called AS (
	SELECT agent, array_agg(DISTINCT model ORDER BY model) AS models
	FROM parts, unnest(models) AS model
	WHERE (agent IN (SELECT agent FROM page)) IS TRUE AND model <> ''
	GROUP BY agent
), refused AS (
	SELECT agent, sum(events)::bigint AS refused_events, sum(cost_nano_usd) AS refused_cost_usd
	FROM refused_events WHERE account_id = $1 AND bucket >= $2 AND bucket < $3 AND (agent IN (SELECT agent FROM page)) IS TRUE
	GROUP BY agent
)
SELECT agent AS name, events, errors, unpriced_events, input_tokens, output_tokens, cache_read_tokens, cost_usd,
	latency_count, latency_sum_ms, latency_max_ms, latencies, coalesce(sessions, 0) AS sessions,
	coalesce(refused_events, 0) AS refused_events, coalesce(refused_cost_usd, 0) AS refused_cost_usd, first_seen, last_seen,
	coalesce(models, '{}') AS models, sort_key
FROM page LEFT JOIN joined USING (agent) LEFT JOIN called USING (agent) LEFT JOIN refused USING (agent)`

const (
	agentsUp   = ` ORDER BY sort_key, agent COLLATE "C"`
	agentsDown = ` ORDER BY sort_key DESC, agent COLLATE "C" DESC`

	selectAgentsUp = agentTotals + `
	WHERE $9::numeric IS NULL OR (sort_key, agent COLLATE "C") > ($9, $10)` + agentsUp + ` LIMIT $11` + agentPage + agentsUp

	selectAgentsDown = agentTotals + `
	WHERE $9::numeric IS NULL OR (sort_key, agent COLLATE "C") < ($9, $10)` + agentsDown + ` LIMIT $11` + agentPage + agentsDown
)

// Agents returns a page of agents with what they did.
func (s *Store) Agents(ctx context.Context, accountID schema.ID, q *AgentQuery) ([]Agent, error) {
	statement := selectAgentsUp
	if q.Descending {
		statement = selectAgentsDown
	}
	var afterKey, afterName *string
	if q.After != nil {
		afterKey, afterName = &q.After.SortKey, &q.After.Name
	}
	dayFrom, dayTo := q.Range.days()
	var agents []Agent
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(statement, accountID, q.Range.From, q.Range.To, dayFrom, dayTo,
			q.Text, q.Name, string(q.Order), afterKey, afterName, q.Limit).Query(func(rows pgx.Rows) (err error) {
			agents, err = pgx.CollectRows(rows, pgx.RowToStructByName[Agent])
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agents, nil
}
