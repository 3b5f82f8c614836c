package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Event is a stored event as clients see it.
type Event struct {
	EventID            EventID         `json:"event_id"`
	Agent              string          `json:"agent"`
	Model              *string         `json:"model"`
	Provider           *string         `json:"provider"`
	SessionID          string          `json:"session_id"`
	SessionImplicit    bool            `json:"session_implicit"`
	Timestamp          Time            `json:"timestamp"`
	ReceivedAt         Time            `json:"received_at"`
	Status             string          `json:"status"`
	ErrorType          *string         `json:"error_type"`
	Step               *string         `json:"step"`
	UserID             *string         `json:"user_id"`
	ParentEventID      *EventID        `json:"parent_event_id"`
	InputTokens        int64           `json:"input_tokens"`
	OutputTokens       int64           `json:"output_tokens"`
	CacheReadTokens    int64           `json:"cache_read_tokens"`
	CacheWriteTokens   int64           `json:"cache_write_tokens"`
	CacheWrite1hTokens int64           `json:"cache_write_1h_tokens"`
	ReasoningTokens    int64           `json:"reasoning_tokens"`
	LatencyMS          *int64          `json:"latency_ms"`
	CostUSD            schema.NanoUSD  `json:"cost_usd"`
	CostSource         string          `json:"cost_source"`
	PriceID            *string         `json:"price_id"`
	Tags               []string        `json:"tags"`
	Metadata           json.RawMessage `json:"metadata"`
	IdempotencyKey     *string         `json:"idempotency_key"`
}

// EventDetail is an event with how its cost came about.
type EventDetail struct {
	Event
	CostBreakdown json.RawMessage `json:"cost_breakdown"`
	// Revisions are what it cost before it was repriced, the latest first.
	Revisions []Revision `json:"revisions" db:"-"`
}

// EventFilter says which events are wanted. A nil field filters nothing.
type EventFilter struct {
	Agent, Model, Provider *string
	// SessionID is in its canonical form.
	SessionID, UserID *string
	// Tags are all on the event.
	Tags   []string
	Status *string
	// MinCost is the least cost, in nano-dollars.
	MinCost *int64
	// Text is part of a name on the event, in any case of letters.
	Text *string
	// From is the first time and To the time after the last one.
	From, To time.Time
}

// Position is where a page of events begins: before this event, in the order
// newest first. The zero ID stands before every event of its time.
type Position struct {
	Time time.Time
	ID   schema.ID
}

const eventColumns = `
	event_id, agent, nullif(model, '') AS model, nullif(provider, '') AS provider,
	session_id, session_implicit, ts AS timestamp, received_at, status,
	nullif(error_type, '') AS error_type, nullif(step, '') AS step, nullif(user_id, '') AS user_id, parent_event_id,
	input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
	latency_ms, cost_nano_usd AS cost_usd, cost_source, nullif(price_id, '') AS price_id,
	coalesce(tags, '{}') AS tags, metadata, nullif(idempotency_key, '') AS idempotency_key`

// The position takes the place of the upper end of the time, so that one range
// of the index (account_id, ts, event_id) is read, and from its end.
const selectEvents = `
SELECT` + eventColumns + `
FROM events
WHERE account_id = $1 AND ts >= $2 AND ts <= $3 AND (ts, event_id) < ($3, $4)
	AND ($5::text IS NULL OR agent = $5)
	AND ($6::text IS NULL OR model = $6)
	AND ($7::text IS NULL OR provider = $7)
	AND ($8::text IS NULL OR session_id = $8)
	AND ($9::text IS NULL OR user_id = $9)
	AND ($10::text[] IS NULL OR tags @> $10)
	AND ($11::text IS NULL OR status = $11)
	AND ($12::bigint IS NULL OR cost_nano_usd >= $12)
	AND ($13::text IS NULL OR strpos(lower(concat_ws(chr(10), agent, model, provider, session_id, step, user_id, error_type)), lower($13)) > 0)
ORDER BY ts DESC, event_id DESC
LIMIT $14`

// recent is how far back a page is looked for first. A page of a busy account lies within
// it, and older chunks need not even be opened.
const recent = 24 * time.Hour

// Events returns up to limit events that f lets through, newest first, beginning
// behind p. The first page begins at Position{Time: f.To}.
func (s *Store) Events(ctx context.Context, accountID schema.ID, f *EventFilter, p Position, limit int) ([]Event, error) {
	// No event is later, give or take the clocks of replicas.
	if newest := time.Now().Add(schema.MaxEventAhead + time.Hour); p.Time.After(newest) {
		p = Position{Time: newest}
	}
	if near := p.Time.Add(-recent); near.After(f.From) {
		events, err := s.eventsSince(ctx, accountID, near, f, p, limit)
		if err != nil || len(events) == limit {
			return events, err
		}
	}
	return s.eventsSince(ctx, accountID, f.From, f, p, limit)
}

func (s *Store) eventsSince(ctx context.Context, accountID schema.ID, from time.Time, f *EventFilter, p Position, limit int) ([]Event, error) {
	var events []Event
	err := s.atOnce(ctx, accountID, func(b *pgx.Batch) {
		if p.Time.Sub(from) <= fewChunks {
			b.Queue(planAnew)
		}
		b.Queue(selectEvents, accountID, from, p.Time, p.ID,
			f.Agent, f.Model, f.Provider, f.SessionID, f.UserID, f.Tags, f.Status, f.MinCost, f.Text, limit).Query(func(rows pgx.Rows) (err error) {
			events, err = pgx.CollectRows(rows, readEvent)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return events, nil
}
