package schema

import "time"

// Event is one call of a language model: what was used, what it cost, and whom
// it belongs to. Ingest makes it once; nothing downstream changes it.
type Event struct {
	ID        ID
	AccountID ID

	// Agent names the agent or workflow; it is never empty.
	Agent string
	// Provider and Model are empty when they are not known.
	Provider, Model string

	// SessionID is the canonical form, which starts with "ses_".
	SessionID string
	// SessionImplicit says that the client named no session and this one was
	// made for the event alone.
	SessionImplicit bool

	// Time is when the call happened, ReceivedAt when ingest got it. Both are
	// UTC with microseconds.
	Time, ReceivedAt time.Time

	// InputTokens is the total, cached tokens included; the three cache counts
	// are parts of it. ReasoningTokens is a part of OutputTokens.
	InputTokens, OutputTokens                             int64
	CacheReadTokens, CacheWriteTokens, CacheWrite1hTokens int64
	ReasoningTokens                                       int64

	// LatencyMS is the response latency in milliseconds, or NoLatency.
	LatencyMS int64

	// Cost was computed at ingest; Source says how, PriceID with which price.
	Cost    NanoUSD
	Source  CostSource
	PriceID string
	// Breakdown is the cost by kind of token as wire.AppendBreakdown packs it, or nil.
	// Those of events from earlier versions are JSON. What a later version packed may not be
	// understood: the event is stored without it.
	Breakdown []byte

	Status    Status
	ErrorType string

	// Step names this step of the session. Parent is the event that caused it,
	// or zero.
	Step   string
	Parent ID

	UserID string
	Tags   []string
	// Metadata is the client's JSON object as it was sent, or nil.
	Metadata []byte

	// IdempotencyKey is empty when the client sent none. With a key, ID is
	// KeyedEventID(AccountID, IdempotencyKey).
	IdempotencyKey string

	// Leases are the shares of caps that the cost was taken from; nil for an
	// event without a cap. The processor settles them.
	Leases []ID
}

// NoLatency is the LatencyMS of an event whose client gave none.
const NoLatency int64 = -1

// CostSource says where the cost of an event comes from.
type CostSource string

// The sources of a cost.
const (
	// CostCalculated means tokens times the price in force.
	CostCalculated CostSource = "calculated"
	// CostClient means that the client sent cost_usd.
	CostClient CostSource = "client"
	// CostNoUsage means that there were no tokens to price.
	CostNoUsage CostSource = "no_usage"
	// CostUnpriced means that no price is known; the cost is 0 until repriced.
	CostUnpriced CostSource = "unpriced"
)

// Status says whether the call succeeded. A call that did not may still cost.
type Status string

// The states of a call.
const (
	StatusOK    Status = "ok"
	StatusError Status = "error"
)
