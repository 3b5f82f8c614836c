package decode

import (
	"errors"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/wire"
)

// Event makes e the event of r, which was read without error: defaults filled in and priced by the book, which is nil
// while prices are not loaded. now is when the event arrived, in microseconds. The error is a problem that says why the
// event cannot be recorded; e is priced as far as possible all the same, because it may repeat a recorded event.
func (r *Request) Event(e *schema.Event, account schema.ID, book *price.Book, now time.Time) error {
	r.fill(e, account, now)
	var errs schema.Faults
	errs.CheckTime("timestamp", e.Time, now)
	errs.CheckCount("input_tokens", e.InputTokens)
	errs.CheckUsage(e)
	if err := r.price(e, book); len(errs) == 0 {
		return err
	}
	return problemOf(errs)
}

// fill sets everything but the price.
func (r *Request) fill(e *schema.Event, account schema.ID, now time.Time) {
	*e = schema.Event{
		AccountID:          account,
		Agent:              r.agent.value,
		Provider:           r.provider.value,
		Model:              r.model.value,
		Time:               r.time,
		ReceivedAt:         now,
		InputTokens:        r.input.value,
		OutputTokens:       r.output.value,
		CacheReadTokens:    r.cacheRead.value,
		CacheWriteTokens:   r.cacheWrite.value,
		CacheWrite1hTokens: r.cacheHour.value,
		ReasoningTokens:    r.reasoning.value,
		LatencyMS:          schema.NoLatency,
		Status:             schema.StatusOK,
		ErrorType:          r.errorType.value,
		Step:               r.step.value,
		Parent:             r.parentID,
		UserID:             r.userID.value,
		Tags:               orNil(r.tags),
		Metadata:           orNil(r.metadata),
		IdempotencyKey:     r.idempotencyKey.value,
	}
	if e.Time.IsZero() {
		e.Time = now
	}
	if r.latency.given() {
		e.LatencyMS = r.latency.value
	}
	if r.status.value == string(schema.StatusError) {
		e.Status = schema.StatusError
	}
	if r.accounting.value == "exclusive" {
		e.InputTokens += e.CacheReadTokens + e.CacheWriteTokens + e.CacheWrite1hTokens
	}
	r.identify(e, now)
}

// identify sets the ids. With an idempotency key they depend on nothing but the
// key and the body, so that a retry is answered alike.
func (r *Request) identify(e *schema.Event, now time.Time) {
	if e.IdempotencyKey != "" {
		e.ID = schema.KeyedEventID(e.AccountID, e.IdempotencyKey)
	} else {
		e.ID = schema.NewID(now)
	}
	if client := r.sessionID.value; client != "" {
		e.SessionID = client
		if !strings.HasPrefix(client, sessionMark) {
			e.SessionID = r.arena.text(sessionMark, []byte(client))
		}
		return
	}
	e.SessionID = schema.ImplicitSessionID(e.ID)
	e.SessionImplicit = true
}

// sessionMark starts the session ids of all events, as schema.SessionID has it.
const sessionMark = string(schema.SessionPrefix) + "_"

// price sets provider, cost and where they come from. The provider is the
// client's own in its usual spelling, or the one that the model belongs to.
func (r *Request) price(e *schema.Event, book *price.Book) error {
	if book == nil {
		return &problem.Problem{
			Code:       problem.Internal,
			Detail:     "The prices are not loaded yet. Send the event again in a moment.",
			RetryAfter: time.Second,
		}
	}
	q, err := book.Quote(e.Provider, e.Model, e.Time, r.usage(e))
	if q.Provider != "" {
		e.Provider = q.Provider
	}
	if r.costGiven {
		e.Cost, e.Source = r.cost, schema.CostClient
		return nil
	}
	if errors.Is(err, price.ErrTooLarge) {
		return problem.FromFaults(schema.Faults{{
			Field:   "input_tokens",
			Message: "and output_tokens come to more than USD 1000000 for one event; check the counts",
		}})
	}
	if err != nil {
		return err
	}
	e.Cost, e.Source, e.PriceID = schema.NanoUSD(q.CostNanoUSD), schema.CostSource(q.Source), q.PriceID
	if q.Source == price.Calculated {
		start := len(r.arena.bytes)
		r.arena.bytes = wire.AppendBreakdown(r.arena.bytes, &q)
		e.Breakdown = r.arena.since(start)
	}
	return nil
}

func (r *Request) usage(e *schema.Event) price.Usage {
	return price.Usage{
		Input: e.InputTokens, Output: e.OutputTokens,
		CacheRead: e.CacheReadTokens, CacheWrite: e.CacheWriteTokens, CacheWrite1h: e.CacheWrite1hTokens,
		Reasoning: e.ReasoningTokens,
		Given:     r.hasUsage(),
	}
}

// hasUsage reports whether the client gave any count of tokens.
func (r *Request) hasUsage() bool {
	return r.input.given() || r.output.given() || r.reasoning.given() ||
		r.cacheRead.given() || r.cacheWrite.given() || r.cacheHour.given()
}

// orNil keeps memory without content out of the event.
func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}
