package timescale

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outlayhq/outlay/schema"
)

// arrivalKey is one row of arrivals: what came in a minute of one model for one
// agent.
type arrivalKey struct {
	account                schema.ID
	minute                 int64 // Unix seconds
	agent, provider, model string
}

// arrivalSum is what the events of a batch add to a row. A sum that is too large for
// its type stays at the largest that there is: alerts do without the difference, and
// no event is ever refused for it.
type arrivalSum struct {
	events, errors, unpriced, input, output, cost int64
	latencies                                     [latencySlots]uint32
}

func (s *arrivalSum) add(e *schema.Event) {
	s.events++
	if e.Status == schema.StatusError {
		s.errors++
	}
	if e.Source == schema.CostUnpriced {
		s.unpriced++
	}
	s.input = addUpTo(s.input, e.InputTokens)
	s.output = addUpTo(s.output, e.OutputTokens)
	s.cost = addUpTo(s.cost, int64(e.Cost))
	if e.LatencyMS != schema.NoLatency {
		s.latencies[latencySlot(e.LatencyMS)]++
	}
}

// addUpTo adds two numbers that are not negative.
func addUpTo(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// latencySlots is how many slots the database's histograms have: four to each
// doubling, the last one without an end.
const latencySlots = 93

// latencySlot returns the slot that the database's function latency_histogram counts
// a latency in.
func latencySlot(ms int64) int {
	if ms < 8 {
		return int(max(ms, 0))
	}
	if ms >= 1<<24 {
		return latencySlots - 1
	}
	// A double is exact enough: it takes the slot or the one before, and no slot but
	// those at powers of two begins at a whole number.
	slot := int(4 * math.Log2(float64(ms)))
	for float64(ms) >= math.Exp2(float64(slot+1)/4) {
		slot++
	}
	for float64(ms) < math.Exp2(float64(slot)/4) {
		slot--
	}
	return slot - 4*3 + 8
}

// arrivalColumns are parameters of saveBatch.
type arrivalColumns struct {
	account, bucket, agent, provider, model, events, errors, unpriced, input, output, cost, latencies column

	// sums are where index says; what is not used keeps its memory for the next batch.
	index map[arrivalKey]int
	sums  []arrivalSum
	keys  []arrivalKey
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
			yield(&c.input, pgtype.Int8OID) &&
			yield(&c.output, pgtype.Int8OID) &&
			yield(&c.cost, pgtype.Int8OID) &&
			yield(&c.latencies, pgtype.NumericOID)
	}
}

func (c *arrivalColumns) reset() {
	for column, elementType := range c.columns() {
		column.reset(elementType)
	}
	if c.index == nil {
		c.index = map[arrivalKey]int{}
	}
	clear(c.index)
	c.sums, c.keys = c.sums[:0], c.keys[:0]
}

func (c *arrivalColumns) add(e *schema.Event) {
	s := e.ReceivedAt.Unix()
	k := arrivalKey{e.AccountID, s - (s%60+60)%60, e.Agent, e.Provider, e.Model}
	i, ok := c.index[k]
	if !ok {
		i = len(c.sums)
		c.index[k] = i
		c.sums = append(c.sums, arrivalSum{})
		c.keys = append(c.keys, k)
	}
	c.sums[i].add(e)
}

// encode adds the sums in a fixed order, so that two batches never wait for each
// other's rows in a circle.
func (c *arrivalColumns) encode() {
	slices.SortFunc(c.keys, func(a, b arrivalKey) int {
		return cmp.Or(
			slices.Compare(a.account[:], b.account[:]),
			cmp.Compare(a.minute, b.minute),
			cmp.Compare(a.agent, b.agent),
			cmp.Compare(a.provider, b.provider),
			cmp.Compare(a.model, b.model))
	})
	for _, k := range c.keys {
		s := &c.sums[c.index[k]]
		c.account.id(k.account)
		c.bucket.int8((k.minute - postgresEpoch/1_000_000) * 1_000_000)
		c.agent.text(k.agent)
		c.provider.text(k.provider)
		c.model.text(k.model)
		c.events.int8(s.events)
		c.errors.int8(s.errors)
		c.unpriced.int8(s.unpriced)
		c.input.int8(s.input)
		c.output.int8(s.output)
		c.cost.int8(s.cost)
		c.latencies.histogram(&s.latencies)
	}
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
