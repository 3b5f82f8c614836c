package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// SessionOrder is what a list of sessions is ordered by.
type SessionOrder string

// The orders of sessions.
const (
	SessionsByStart    SessionOrder = "started_at"
	SessionsByEnd      SessionOrder = "ended_at"
	SessionsByCost     SessionOrder = "cost_usd"
	SessionsByEvents   SessionOrder = "events"
	SessionsByDuration SessionOrder = "duration_ms"
)

// SessionQuery says which sessions are wanted.
type SessionQuery struct {
	// From and To are when the session started.
	From, To time.Time
	// Agent and UserID are of an event of the session; Text is a part of its id or
	// of an agent's name, in any case of letters. Nil filters nothing.
	Agent, UserID, Text *string
	// Implicit adds the sessions that were made for single events.
	Implicit   bool
	Order      SessionOrder
	Descending bool
	// After is the session that the page follows, nil for the first page.
	After *SessionPosition
	Limit int
}

// SessionPosition is a session's place in the list.
type SessionPosition struct {
	SortKey string
	ID      string
}

// ListedSession is a session with what the list is ordered by before the id.
type ListedSession struct {
	Session
	SortKey Sum
}

const sessionList = `
WITH totals AS (
	SELECT` + sessionSums + `
	FROM events
	WHERE account_id = $1 AND ($7 OR NOT session_implicit)
	GROUP BY session_id
	HAVING min(ts) >= $2 AND min(ts) < $3
		AND ($4::text IS NULL OR bool_or(agent = $4))
		AND ($5::text IS NULL OR bool_or(user_id = $5))
		AND ($6::text IS NULL OR strpos(lower(session_id), lower($6)) > 0 OR bool_or(strpos(lower(agent), lower($6)) > 0))
), keyed AS (
	SELECT id COLLATE "C" AS id, implicit, agents, events, errors, input_tokens, output_tokens, cost_usd, started_at, ended_at,
		CASE $8 WHEN 'started_at' THEN trunc(extract(epoch FROM started_at) * 1000000)
			WHEN 'ended_at' THEN trunc(extract(epoch FROM ended_at) * 1000000)
			WHEN 'duration_ms' THEN trunc(extract(epoch FROM ended_at - started_at) * 1000000)
			WHEN 'events' THEN events::numeric ELSE cost_usd END AS sort_key
	FROM totals
)
SELECT id, implicit, agents, events, errors, input_tokens, output_tokens, cost_usd, started_at, ended_at, sort_key
FROM keyed`

const selectSessionsUp = sessionList + `
WHERE $9::numeric IS NULL OR (sort_key, id) > ($9, $10)
ORDER BY sort_key, id LIMIT $11`

const selectSessionsDown = sessionList + `
WHERE $9::numeric IS NULL OR (sort_key, id) < ($9, $10)
ORDER BY sort_key DESC, id DESC LIMIT $11`

// Sessions returns a page of sessions.
func (s *Store) Sessions(ctx context.Context, accountID schema.ID, q *SessionQuery) ([]ListedSession, error) {
	statement := selectSessionsUp
	if q.Descending {
		statement = selectSessionsDown
	}
	var afterKey, afterID *string
	if q.After != nil {
		afterKey, afterID = &q.After.SortKey, &q.After.ID
	}
	var sessions []ListedSession
	err := s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, statement, accountID, q.From, q.To, q.Agent, q.UserID, q.Text, q.Implicit,
			string(q.Order), afterKey, afterID, q.Limit)
		sessions, err = pgx.CollectRows(rows, pgx.RowToStructByName[ListedSession])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return sessions, nil
}
