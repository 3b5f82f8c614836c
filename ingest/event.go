package ingest

import (
	"errors"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/problem"
	"github.com/outlayhq/outlay/schema/wire"
)

// arrival is now as the events of a request have it.
func (s *Server) arrival() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// event makes the admission of an event: defaults filled in, priced. If it cannot be
// recorded, a problem in it lists what is wrong.
func (s *Server) event(e *schema.Event, r *request, account schema.ID, now time.Time) admission {
	r.event(e, account, now)
	a := admission{event: e, warnings: r.warnings}
	if e.IdempotencyKey != "" {
		a.fingerprint = r.fingerprint(s.recent.seed)
	}
	var faults schema.Faults
	faults.CheckTime("timestamp", e.Time, now)
	faults.CheckCount("input_tokens", e.InputTokens)
	faults.CheckUsage(e)
	// One with faults is priced as well: it may repeat an event that is recorded, and
	// is answered with the provider then.
	if a.unfit = s.price(e, r); len(faults) > 0 {
		a.unfit = problem.FromFaults(faults)
	}
	return a
}

// event fills in everything but the price.
func (r *request) event(e *schema.Event, account schema.ID, now time.Time) {
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
func (r *request) identify(e *schema.Event, now time.Time) {
	if e.IdempotencyKey != "" {
		e.ID = schema.KeyedEventID(e.AccountID, e.IdempotencyKey)
	} else {
		e.ID = schema.NewID(now)
	}
	if r.session == "" && r.sessionID.value != "" {
		r.session = r.memory.session(r.sessionID.value)
	}
	if e.SessionID = r.session; e.SessionID != "" {
		return
	}
	e.SessionID = schema.ImplicitSessionID(e.ID)
	e.SessionImplicit = true
}

// session is schema.SessionID in memory of m.
func (m *memory) session(client string) string {
	if strings.HasPrefix(client, sessionMark) {
		return client
	}
	return m.joined(sessionMark, client)
}

const sessionMark = string(schema.SessionPrefix) + "_"

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
		start := len(r.memory.bytes)
		r.memory.bytes = wire.AppendBreakdown(r.memory.bytes, &q)
		e.Breakdown = r.memory.since(start)
	}
	return nil
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
