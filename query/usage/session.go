package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Session is what the events of one session add up to.
type Session struct {
	ID           string
	Implicit     bool
	Agents       []string
	Events       int64
	Errors       int64
	InputTokens  Sum
	OutputTokens Sum
	CostUSD      USD
	StartedAt    Time
	EndedAt      Time
}

// Duration is the time from the first event to the last one.
func (s *Session) Duration() time.Duration { return s.EndedAt.Sub(s.StartedAt.Time) }

// Step is one event of a session, in its place.
type Step struct {
	Event
	// Index counts from 1.
	Index int64 `json:"index"`
	// OffsetMS is the time since the start of the session.
	OffsetMS int64 `json:"offset_ms"`
	// CumulativeCostUSD is the cost of the session up to and with this step.
	CumulativeCostUSD USD `json:"cumulative_cost_usd"`
}

// StepPosition is the place of a step in its session: by time, and at one time in
// the order in which the steps were accepted.
type StepPosition struct {
	Time      time.Time
	Partition int32
	Offset    int64
}

// Timeline is a page of the steps of a session.
type Timeline struct {
	Session
	Steps []Step
	// Next is the place of the last step when there are more, else nil.
	Next *StepPosition
}

// selectSession adds up a session that a client named.
const selectSession = `
WITH every AS MATERIALIZED (
	SELECT agents, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM sessions WHERE account_id = $1 AND session_id = $2
	UNION ALL
	SELECT agents, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at
	FROM session_parts WHERE account_id = $1 AND session_id = $2
)
SELECT $2 AS id, false AS implicit, (
		SELECT array_agg(DISTINCT agent ORDER BY agent) FROM every, unnest(agents) AS agent
	) AS agents, sum(events)::bigint AS events, sum(errors)::bigint AS errors,
	sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nano_usd) AS cost_usd,
	min(started_at) AS started_at, max(ended_at) AS ended_at
FROM every HAVING count(*) > 0`

// selectBegunSession adds up a session whose id was made for an event, with the
// events that a client put into it later.
const selectBegunSession = `
SELECT session_id AS id, bool_and(session_implicit) AS implicit, array_agg(DISTINCT agent ORDER BY agent) AS agents,
	count(*) AS events, count(*) FILTER (WHERE status = 'error') AS errors,
	sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nano_usd) AS cost_usd,
	min(ts) AS started_at, max(ts) AS ended_at
FROM events WHERE account_id = $1 AND session_id = $2
GROUP BY session_id`

// Session returns a session with up to limit of its steps, in the order of time,
// beginning behind after, or with the first. It returns ErrNotFound when the
// account has no such session.
func (s *Store) Session(ctx context.Context, accountID schema.ID, id string, after *StepPosition, limit int) (Timeline, error) {
	var timeline Timeline
	err := s.read(ctx, accountID, func(ctx context.Context, tx pgx.Tx) (err error) {
		timeline, err = session(ctx, tx, accountID, id, after, limit)
		return err
	})
	if err != nil {
		return Timeline{}, fmt.Errorf("find session: %w", err)
	}
	return timeline, nil
}

func session(ctx context.Context, tx pgx.Tx, accountID schema.ID, id string, after *StepPosition, limit int) (t Timeline, err error) {
	statement := selectSession
	if _, err := schema.ParseID(schema.SessionPrefix, id); err == nil {
		statement = selectBegunSession
	}
	rows, _ := tx.Query(ctx, statement, accountID, id)
	t.Session, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return Timeline{}, ErrNotFound
	}
	if err != nil {
		return Timeline{}, err
	}
	return t, t.readSteps(ctx, tx, accountID, after, limit)
}

const selectSteps = `
SELECT` + eventColumns + `, kafka_partition, kafka_offset
FROM events
WHERE account_id = $1 AND session_id = $2 AND ts >= $3 AND ts <= $7 AND (ts, kafka_partition, kafka_offset) > ($3, $4, $5)
ORDER BY ts, kafka_partition, kafka_offset
LIMIT $6`

type stepRow struct {
	Event
	KafkaPartition int32
	KafkaOffset    int64
}

// readSteps adds a page of steps. Each page is counted from the start of the
// session, so that it is right whatever arrived since the page before.
func (t *Timeline) readSteps(ctx context.Context, tx pgx.Tx, accountID schema.ID, after *StepPosition, limit int) error {
	place := StepPosition{Time: t.StartedAt.Time, Partition: -1}
	if after != nil {
		place = *after
	}
	index, spent, err := t.before(ctx, tx, accountID, after)
	if err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, selectSteps, accountID, t.ID, place.Time, place.Partition, place.Offset, limit+1, t.EndedAt.Time)
	steps, err := pgx.CollectRows(rows, pgx.RowToStructByName[stepRow])
	if err != nil {
		return err
	}
	if len(steps) > limit {
		last := &steps[limit-1]
		t.Next = &StepPosition{last.Timestamp.Time, last.KafkaPartition, last.KafkaOffset}
		steps = steps[:limit]
	}
	t.Steps = make([]Step, len(steps))
	for i := range steps {
		cost := NewSum(int64(steps[i].CostUSD))
		spent.Add(&cost)
		t.Steps[i] = Step{
			Event:    steps[i].Event,
			Index:    index + int64(i) + 1,
			OffsetMS: steps[i].Timestamp.Sub(t.StartedAt.Time).Milliseconds(),
		}
		t.Steps[i].CumulativeCostUSD.Add(&spent)
	}
	return nil
}

const selectBefore = `
SELECT count(*), sum(cost_nano_usd)
FROM events
WHERE account_id = $1 AND session_id = $2 AND ts >= $6 AND ts <= $3 AND (ts, kafka_partition, kafka_offset) <= ($3, $4, $5)`

// before returns how many steps lie up to a place and what they cost.
func (t *Timeline) before(ctx context.Context, tx pgx.Tx, accountID schema.ID, p *StepPosition) (steps int64, spent Sum, err error) {
	if p == nil {
		return 0, Sum{}, nil
	}
	err = tx.QueryRow(ctx, selectBefore, accountID, t.ID, p.Time, p.Partition, p.Offset, t.StartedAt.Time).Scan(&steps, &spent)
	return steps, spent, err
}
