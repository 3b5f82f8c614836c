package usage

import (
	"context"
	"fmt"
	"strconv"
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

const sessionFilter = `
	started_at >= $2
	AND ($4::text IS NULL OR agents @> ARRAY[$4])
	AND ($5::text IS NULL OR users @> ARRAY[$5])
	AND ($6::text IS NULL OR strpos(lower(session_id), lower($6)) > 0
		OR strpos(lower(array_to_string(agents, chr(10))), lower($6)) > 0)`

// implicitSessions are those that were made for single events and are not in
// sessions: grouped when asked, as nobody keeps them.
const implicitSessions = `
	UNION ALL
	SELECT session_id, true, array_agg(DISTINCT agent ORDER BY agent), array_agg(user_id), count(*), count(*) FILTER (WHERE status = 'error'),
		sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), min(ts), max(ts)
	FROM events e
	WHERE account_id = $1 AND session_implicit AND ts >= $2 AND ts < $3
		AND NOT EXISTS (SELECT FROM sessions s WHERE s.account_id = $1 AND s.session_id = e.session_id)
		AND e.session_id NOT IN (SELECT session_id FROM pending)
	GROUP BY session_id`

const (
	namedSessions = `
WITH pending AS MATERIALIZED (` + pendingSessions + `
), listed AS (
	SELECT session_id, false AS implicit, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM sessions s WHERE account_id = $1 AND started_at >= $2 AND started_at < $3 AND` + nothingPending + `
	UNION ALL
	SELECT session_id, false, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM pending WHERE started_at < $3`

	keyedSessions = `
), keyed AS (
	SELECT session_id COLLATE "C" AS id, implicit, agents, events, errors, input_tokens, output_tokens, cost_nano_usd AS cost_usd,
		started_at, ended_at,
		CASE $7 WHEN 'started_at' THEN trunc(extract(epoch FROM started_at) * 1000000)
			WHEN 'ended_at' THEN trunc(extract(epoch FROM ended_at) * 1000000)
			WHEN 'duration_ms' THEN trunc(extract(epoch FROM ended_at - started_at) * 1000000)
			WHEN 'events' THEN events::numeric ELSE cost_nano_usd END AS sort_key
	FROM listed WHERE` + sessionFilter + `
)
SELECT id, implicit, agents, events, errors, input_tokens, output_tokens, cost_usd, started_at, ended_at, sort_key
FROM keyed`

	sessionsUp = `
WHERE $8::numeric IS NULL OR (sort_key, id) > ($8, $9)
ORDER BY sort_key, id LIMIT $10`

	sessionsDown = `
WHERE $8::numeric IS NULL OR (sort_key, id) < ($8, $9)
ORDER BY sort_key DESC, id DESC LIMIT $10`
)

// selectLatestSessions reads the order that is asked for most from its index, so
// that a page costs the same among any number of sessions. The position takes the
// place of the upper end of the time.
const selectLatestSessions = `
WITH pending AS MATERIALIZED (` + pendingSessions + `
), latest AS (
	SELECT session_id, agents, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM sessions s
	WHERE account_id = $1 AND (started_at, session_id COLLATE "C") < ($3, $7) AND` + nothingPending + ` AND` + sessionFilter + `
	ORDER BY started_at DESC, session_id COLLATE "C" DESC LIMIT $8
), every AS (
	SELECT * FROM latest
	UNION ALL
	SELECT session_id, agents, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM pending
	WHERE (started_at, session_id COLLATE "C") < ($3, $7) AND` + sessionFilter + `
)
SELECT session_id COLLATE "C" AS id, false AS implicit, agents, events, errors, input_tokens, output_tokens, cost_nano_usd AS cost_usd,
	started_at, ended_at, trunc(extract(epoch FROM started_at) * 1000000) AS sort_key
FROM every
ORDER BY started_at DESC, session_id COLLATE "C" DESC LIMIT $8`

// latest returns the statement and its arguments for the order newest first.
func (q *SessionQuery) latest(accountID schema.ID) (statement string, args []any, err error) {
	upTo, id := q.To, ""
	if q.After != nil {
		micros, err := strconv.ParseInt(q.After.SortKey, 10, 64)
		if err != nil {
			return "", nil, fmt.Errorf("position of the page: %w", err)
		}
		upTo, id = time.UnixMicro(micros), q.After.ID
	}
	return selectLatestSessions, []any{accountID, q.From, upTo, q.Agent, q.UserID, q.Text, id, q.Limit}, nil
}

// statement returns the statement that answers q, and its arguments.
func (q *SessionQuery) statement(accountID schema.ID) (statement string, args []any, err error) {
	if q.Order == SessionsByStart && q.Descending && !q.Implicit {
		return q.latest(accountID)
	}
	statement = namedSessions
	if q.Implicit {
		statement += implicitSessions
	}
	statement += keyedSessions
	if q.Descending {
		statement += sessionsDown
	} else {
		statement += sessionsUp
	}
	var afterKey, afterID *string
	if q.After != nil {
		afterKey, afterID = &q.After.SortKey, &q.After.ID
	}
	return statement, []any{
		accountID, q.From, q.To, q.Agent, q.UserID, q.Text, string(q.Order), afterKey, afterID, q.Limit,
	}, nil
}

// Sessions returns a page of sessions.
func (s *Store) Sessions(ctx context.Context, accountID schema.ID, q *SessionQuery) ([]ListedSession, error) {
	statement, args, err := q.statement(accountID)
	if err != nil {
		return nil, err
	}
	var sessions []ListedSession
	err = s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(statement, args...).Query(func(rows pgx.Rows) (err error) {
			sessions, err = pgx.CollectRows(rows, readListedSession)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return sessions, nil
}
