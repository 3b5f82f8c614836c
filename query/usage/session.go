package usage

import (
	"context"
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
	statement := selectSession
	if _, err := schema.ParseID(schema.SessionPrefix, id); err == nil {
		statement = selectBegunSession
	}
	var t Timeline
	var before stepsBefore
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		b.Queue(statement, accountID, id).Query(func(rows pgx.Rows) (err error) {
			t.Session, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Session])
			return notFoundOr(err)
		})
	}, func(b *pgx.Batch) {
		if t.Duration() <= fewChunks {
			b.Queue(planAnew)
		}
		if after != nil {
			before.queue(b, accountID, &t, after)
		}
		t.queueSteps(b, accountID, after, limit, &before)
	})
	if err != nil {
		return Timeline{}, fmt.Errorf("find session: %w", err)
	}
	return t, nil
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

// queueSteps adds what reads a page of steps. Each page is counted from the start of the
// session, so that it is right whatever arrived since the page before.
func (t *Timeline) queueSteps(b *pgx.Batch, accountID schema.ID, after *StepPosition, limit int, before *stepsBefore) {
	place := StepPosition{Time: t.StartedAt.Time, Partition: -1}
	if after != nil {
		place = *after
	}
	read := func(rows pgx.Rows) error {
		steps, err := pgx.CollectRows(rows, readStep)
		if err != nil {
			return err
		}
		if len(steps) > limit {
			last := &steps[limit-1]
			t.Next = &StepPosition{last.Timestamp.Time, last.KafkaPartition, last.KafkaOffset}
			steps = steps[:limit]
		}
		t.count(steps, before)
		return nil
	}
	b.Queue(selectSteps, accountID, t.ID, place.Time, place.Partition, place.Offset, limit+1, t.EndedAt.Time).Query(read)
}

// count makes steps of rows, which are those behind before.
func (t *Timeline) count(rows []stepRow, before *stepsBefore) {
	t.Steps = make([]Step, len(rows))
	spent := before.spent
	for i := range rows {
		cost := NewSum(int64(rows[i].CostUSD))
		spent.Add(&cost)
		t.Steps[i] = Step{
			Event:    rows[i].Event,
			Index:    before.steps + int64(i) + 1,
			OffsetMS: rows[i].Timestamp.Sub(t.StartedAt.Time).Milliseconds(),
		}
		t.Steps[i].CumulativeCostUSD.Add(&spent)
	}
}

// stepsBefore is how many steps lie before a page and what they cost.
type stepsBefore struct {
	steps int64
	spent Sum
}

const selectBefore = `
SELECT count(*), sum(cost_nano_usd)
FROM events
WHERE account_id = $1 AND session_id = $2 AND ts >= $6 AND ts <= $3 AND (ts, kafka_partition, kafka_offset) <= ($3, $4, $5)`

func (s *stepsBefore) queue(b *pgx.Batch, accountID schema.ID, t *Timeline, p *StepPosition) {
	b.Queue(selectBefore, accountID, t.ID, p.Time, p.Partition, p.Offset, t.StartedAt.Time).QueryRow(func(row pgx.Row) error {
		return row.Scan(&s.steps, &s.spent)
	})
}
