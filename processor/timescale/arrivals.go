package timescale

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// arrivalColumns are parameters of saveBatch: a row of arrivals for each minute of
// arrival, agent, provider and model.
type arrivalColumns struct {
	account, bucket, agent, provider, model, events, errors, unpriced, input, output, cost, latencies column
}

func (c *arrivalColumns) columns() func(yield func(*column, uint32) bool) {
	return func(yield func(*column, uint32) bool) {
		_ = yield(&c.account, pgtype.UUIDOID) &&
			yield(&c.bucket, pgtype.TimestamptzOID) &&
			yield(&c.agent, pgtype.TextOID) &&
			yield(&c.provider, pgtype.TextOID) &&
			yield(&c.model, pgtype.TextOID) &&
			yield(&c.events, pgtype.Int8OID) &&
			yield(&c.errors, pgtype.Int8OID) &&
			yield(&c.unpriced, pgtype.Int8OID) &&
			yield(&c.input, pgtype.NumericOID) &&
			yield(&c.output, pgtype.NumericOID) &&
			yield(&c.cost, pgtype.NumericOID) &&
			yield(&c.latencies, pgtype.NumericOID)
	}
}

func (c *arrivalColumns) reset() {
	for column, elementType := range c.columns() {
		column.reset(elementType)
	}
}

func (c *arrivalColumns) add(k *sumKey, s *eventSum) {
	c.account.id(k.account)
	c.bucket.seconds(k.minute)
	c.agent.text(k.agent)
	c.provider.text(k.provider)
	c.model.text(k.model)
	c.events.int8(s.events)
	c.errors.int8(s.errors)
	c.unpriced.int8(s.unpriced)
	c.input.numeric(s.input)
	c.output.numeric(s.output)
	c.cost.numeric(s.spent)
	c.latencies.histogram(&s.latencies)
}

// histogram adds a histogram as the database keeps it: one number in which each slot
// is twelve decimal digits. On the wire a number is its digits to the base 10 000,
// the highest first, so that each slot is three of them.
func (c *column) histogram(slots *[latencySlots]uint32) {
	c.count++
	highest := -1
	for i, n := range slots {
		if n > 0 {
			highest = i
		}
	}
	digits := 3 * (highest + 1)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(8+2*digits))
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(digits))
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(max(digits-1, 0))) // the power of the first digit
	c.buf = append(c.buf, 0, 0, 0, 0)                                      // positive, no decimals
	for i := highest; i >= 0; i-- {
		n := slots[i]
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(n/100_000_000))
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(n/10_000%10_000))
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(n%10_000))
	}
}
