package timescale

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// liveColumns are parameters of saveBatch: a row of usage_live_parts for each quarter of an
// hour, agent, model and provider.
type liveColumns struct {
	account, bucket, agent, model, provider                      column
	events, errors, unpriced                                     column
	input, output, cacheRead, cacheWrite, reasoning, cost        column
	latencyCount, latencySum, latencyMax, latencies, first, last column
}

func (c *liveColumns) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&c.bucket, pgtype.TimestamptzOID) &&
			yield(&c.account, pgtype.UUIDOID) &&
			yield(&c.agent, pgtype.TextOID) &&
			yield(&c.model, pgtype.TextOID) &&
			yield(&c.provider, pgtype.TextOID) &&
			yield(&c.events, pgtype.Int8OID) &&
			yield(&c.errors, pgtype.Int8OID) &&
			yield(&c.unpriced, pgtype.Int8OID) &&
			yield(&c.input, pgtype.NumericOID) &&
			yield(&c.output, pgtype.NumericOID) &&
			yield(&c.cacheRead, pgtype.NumericOID) &&
			yield(&c.cacheWrite, pgtype.NumericOID) &&
			yield(&c.reasoning, pgtype.NumericOID) &&
			yield(&c.cost, pgtype.NumericOID) &&
			yield(&c.latencyCount, pgtype.Int8OID) &&
			yield(&c.latencySum, pgtype.NumericOID) &&
			yield(&c.latencyMax, pgtype.Int8OID) &&
			yield(&c.latencies, pgtype.NumericOID) &&
			yield(&c.first, pgtype.TimestamptzOID) &&
			yield(&c.last, pgtype.TimestamptzOID)
	}
}

func (c *liveColumns) reset() {
	for column, elementType := range c.columns() {
		column.reset(elementType)
	}
}

func (c *liveColumns) add(k *sumKey, s *eventSum) {
	c.bucket.seconds(k.quarter)
	c.account.id(k.account)
	c.agent.text(k.agent)
	c.model.text(k.model)
	c.provider.text(k.provider)
	c.events.int8(s.events)
	c.errors.int8(s.errors)
	c.unpriced.int8(s.unpriced)
	c.input.numeric(s.input)
	c.output.numeric(s.output)
	c.cacheRead.numeric(s.cacheRead)
	c.cacheWrite.numeric(s.cacheWrite)
	c.reasoning.numeric(s.reasoning)
	c.cost.numeric(s.spent)
	c.latencyCount.int8(s.latencyCount)
	c.latencySum.numeric(s.latency)
	if s.latencyMax == schema.NoLatency {
		c.latencyMax.null()
	} else {
		c.latencyMax.int8(s.latencyMax)
	}
	c.latencies.histogram(&s.latencies)
	c.first.time(s.first)
	c.last.time(s.last)
}
