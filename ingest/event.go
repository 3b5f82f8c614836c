package ingest

import (
	"errors"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
)

// arrival is now as the events of a request have it.
func (s *Server) arrival() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// event makes the event that is recorded: defaults filled in, priced. The error
// is a problem that lists what is wrong.
func (s *Server) event(r *request, account schema.ID, now time.Time) (*schema.Event, error) {
	e := r.event(account, now)
	var faults schema.Faults
	faults.CheckTime("timestamp", e.Time, now)
	faults.CheckCount("input_tokens", e.InputTokens)
	faults.CheckUsage(e)
	if len(faults) > 0 {
		return nil, problem.FromFaults(faults)
	}
	if err := s.price(e, r); err != nil {
		return nil, err
	}
	return e, nil
}

// event fills in everything but the price. The event is good for as long as r is.
func (r *request) event(account schema.ID, now time.Time) *schema.Event {
	e := &r.made
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
	return e
}

// identify sets the ids. With an idempotency key they depend on nothing but the
// key and the body, so that a retry is answered alike.
func (r *request) identify(e *schema.Event, now time.Time) {
	if e.IdempotencyKey != "" {
		e.ID = r.keyedID(e.AccountID)
	} else {
		e.ID = schema.NewID(now)
	}
	if r.sessionID.value != "" {
		e.SessionID = schema.SessionID(r.sessionID.value)
		return
	}
	e.SessionID = schema.ImplicitSessionID(e.ID)
	e.SessionImplicit = true
}

// keyedID is the id that belongs to the idempotency key. It is worked out once.
func (r *request) keyedID(account schema.ID) schema.ID {
	if r.id.IsZero() {
		r.id = schema.KeyedEventID(account, r.idempotencyKey.value)
	}
	return r.id
}

// price sets provider, cost and where they come from. The provider is the
// client's own in its usual spelling, or the one that the model belongs to.
func (s *Server) price(e *schema.Event, r *request) error {
	book := s.prices(e.AccountID)
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
		r.breakdown = price.AppendBreakdown(r.breakdown[:0], q)
		e.Breakdown = r.breakdown
	}
	return nil
}

// again makes the event of a retry as it was answered before, but for what it cost.
func (s *Server) again(r *request, account schema.ID, now time.Time) *schema.Event {
	e := r.event(account, now)
	book := s.prices(account)
	if book == nil {
		return e // So the first is not priced either, and refused.
	}
	// Without usage there is no cost, and no error: it is asked for the provider.
	if q, _ := book.Quote(e.Provider, e.Model, e.Time, price.Usage{}); q.Provider != "" {
		e.Provider = q.Provider
	}
	return e
}

func (r *request) usage(e *schema.Event) price.Usage {
	return price.Usage{
		Input: e.InputTokens, Output: e.OutputTokens,
		CacheRead: e.CacheReadTokens, CacheWrite: e.CacheWriteTokens, CacheWrite1h: e.CacheWrite1hTokens,
		Reasoning: e.ReasoningTokens,
		Given:     r.hasUsage(),
	}
}

// hasUsage reports whether the client gave any count of tokens.
func (r *request) hasUsage() bool {
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
