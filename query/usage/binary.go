package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// rowReader reads the rows of an analysis: there are thousands of them, each with names
// that others have too, and with numbers of hundreds of digits.
type rowReader struct {
	names map[string]*string
	slots slab
}

// read is pgx.RowToStructByName[Row], from the bytes of the wire.
func (rd *rowReader) read(row pgx.CollectableRow, r *Row) (err error) {
	if fields := row.FieldDescriptions(); fields[len(fields)-1].Format != pgx.BinaryFormatCode {
		*r, err = pgx.RowToStructByName[Row](row)
		return err
	}
	c := columns{values: row.RawValues()}
	r.Slot = int(c.integer())
	r.Agent, r.Model, r.Provider = rd.name(c.next()), rd.name(c.next()), rd.name(c.next())
	r.Events, r.Errors, r.UnpricedEvents = c.integer(), c.integer(), c.integer()
	c.sum(&r.InputTokens)
	c.sum(&r.OutputTokens)
	c.sum(&r.CacheReadTokens)
	c.sum(&r.CostUSD.Sum)
	r.LatencyCount = c.integer()
	c.sum(&r.LatencySumMS)
	r.LatencyMaxMS = c.integer()
	c.histogram(&r.Latencies, &rd.slots)
	return c.err
}

// name returns a text that all rows with it share; nil for NULL.
func (rd *rowReader) name(value []byte) *string {
	if value == nil {
		return nil
	}
	known := rd.names[string(value)]
	if known == nil {
		if rd.names == nil {
			rd.names = map[string]*string{}
		}
		text := string(value)
		known = &text
		rd.names[text] = known
	}
	return known
}

// slab is memory for many short lists of numbers.
type slab struct {
	free []int64
	size int
}

// take returns n zeros.
func (s *slab) take(n int) []int64 {
	if len(s.free) < n {
		s.size = min(max(2*s.size, n), maxSlab)
		s.free = make([]int64, max(s.size, n))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}

// maxSlab is the longest piece of a slab.
const maxSlab = 4096

// readEvent is pgx.RowToStructByName[Event] for the columns of eventColumns.
func readEvent(row pgx.CollectableRow) (e Event, err error) {
	if row.FieldDescriptions()[0].Format != pgx.BinaryFormatCode {
		return pgx.RowToStructByName[Event](row)
	}
	c := columns{values: row.RawValues()}
	c.event(&e)
	return e, c.err
}

// readStep is pgx.RowToStructByName[stepRow] for the columns of selectSteps.
func readStep(row pgx.CollectableRow) (s stepRow, err error) {
	if row.FieldDescriptions()[0].Format != pgx.BinaryFormatCode {
		return pgx.RowToStructByName[stepRow](row)
	}
	c := columns{values: row.RawValues()}
	c.event(&s.Event)
	s.KafkaPartition, s.KafkaOffset = int32(c.integer()), c.integer()
	return s, c.err
}

func (c *columns) event(e *Event) {
	c.id(&e.EventID)
	e.Agent = string(c.next())
	e.Model, e.Provider = c.text(), c.text()
	e.SessionID = string(c.next())
	e.SessionImplicit = c.next()[0] != 0
	e.Timestamp, e.ReceivedAt = c.time(), c.time()
	e.Status = string(c.next())
	e.ErrorType, e.Step, e.UserID = c.text(), c.text(), c.text()
	if c.values[0] == nil {
		c.next()
	} else {
		e.ParentEventID = new(EventID)
		c.id(e.ParentEventID)
	}
	e.InputTokens, e.OutputTokens = c.integer(), c.integer()
	e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens = c.integer(), c.integer(), c.integer()
	e.ReasoningTokens = c.integer()
	if c.values[0] == nil {
		c.next()
	} else {
		latency := c.integer()
		e.LatencyMS = &latency
	}
	e.CostUSD = schema.NanoUSD(c.integer())
	e.CostSource = string(c.next())
	e.PriceID = c.text()
	e.Tags = c.texts()
	if metadata := c.next(); metadata != nil {
		e.Metadata = slices.Clone(metadata)
	}
	e.IdempotencyKey = c.text()
}

// readListedSession is pgx.RowToStructByName[ListedSession] for the columns of the
// statements that list.
func readListedSession(row pgx.CollectableRow) (s ListedSession, err error) {
	if fields := row.FieldDescriptions(); fields[len(fields)-1].Format != pgx.BinaryFormatCode { // Texts are the same in both.
		return pgx.RowToStructByName[ListedSession](row)
	}
	c := columns{values: row.RawValues()}
	s.ID = string(c.next())
	s.Implicit = c.next()[0] != 0
	s.Agents = c.texts()
	s.Events, s.Errors = c.integer(), c.integer()
	c.sum(&s.InputTokens)
	c.sum(&s.OutputTokens)
	c.sum(&s.CostUSD.Sum)
	s.StartedAt, s.EndedAt = c.time(), c.time()
	c.sum(&s.SortKey)
	return s, c.err
}

// columns reads the columns of a row, one after the other. The first error stays.
type columns struct {
	values [][]byte
	err    error
}

func (c *columns) next() []byte {
	value := c.values[0]
	c.values = c.values[1:]
	return value
}

func (c *columns) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// text returns nil for NULL.
func (c *columns) text() *string {
	value := c.next()
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

// integer reads an integer or a bigint; NULL is 0.
func (c *columns) integer() int64 {
	switch value := c.next(); len(value) {
	case 0:
		return 0
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		return int64(binary.BigEndian.Uint64(value))
	default:
		c.fail(fmt.Errorf("integer of %d bytes", len(value)))
		return 0
	}
}

func (c *columns) id(into *EventID) {
	if value := c.next(); copy(into[:], value) != len(into) {
		c.fail(fmt.Errorf("uuid of %d bytes", len(value)))
	}
}

// microsOf2000 is when the database's clock begins.
const microsOf2000 = 946_684_800_000_000

// time reads a timestamptz that is not infinite.
func (c *columns) time() Time { return Time{time.UnixMicro(microsOf2000 + c.integer()).UTC()} }

// texts reads an array of texts. It has a head of 12 bytes, for each dimension a length
// and a first index, and before each text its length.
func (c *columns) texts() []string {
	value := c.next()
	list := []string{}
	if len(value) < 20 {
		return list
	}
	for rest := value[20:]; len(rest) >= 4; {
		size := int(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; size > len(rest) {
			c.fail(errors.New("array of texts is cut off"))
			return nil
		}
		list = append(list, string(rest[:size]))
		rest = rest[size:]
	}
	return list
}

func (c *columns) sum(into *Sum) {
	if value := c.next(); value != nil {
		n, err := parseNumeric(value)
		if err == nil {
			err = n.sum(into)
		}
		if err != nil {
			c.fail(err)
		}
	}
}

func (c *columns) histogram(into *Histogram, memory *slab) {
	if value := c.next(); value != nil {
		n, err := parseNumeric(value)
		if err == nil {
			err = n.histogram(into, memory)
		}
		if err != nil {
			c.fail(fmt.Errorf("latency histogram: %w", err))
		}
	}
}

// numeric is a number as the database sends it: groups of four decimal digits, of two
// bytes each, the first of them worth 10000 to the power of weight. Groups of zeros at
// the end are left out.
type numeric struct {
	weight   int
	negative bool
	groups   []byte
}

var errNotInteger = errors.New("numeric is not a whole number")

// negativeSign is what the sign of a numeric below zero is; others but 0 are NaN and
// the infinities.
const negativeSign = 0x4000

func parseNumeric(value []byte) (n numeric, err error) {
	if len(value) < 8 || len(value) != 8+2*int(binary.BigEndian.Uint16(value)) {
		return n, fmt.Errorf("numeric of %d bytes", len(value))
	}
	n.weight = int(int16(binary.BigEndian.Uint16(value[2:])))
	n.groups = value[8:]
	sign := binary.BigEndian.Uint16(value[4:])
	n.negative = sign == negativeSign
	if sign != 0 && !n.negative || n.weight < len(n.groups)/2-1 {
		return n, errNotInteger
	}
	return n, nil
}

// group returns the group that is worth 10000 to the power of p.
func (n *numeric) group(p int) int64 {
	i := 2 * (n.weight - p)
	if i < 0 || i >= len(n.groups) {
		return 0
	}
	return int64(binary.BigEndian.Uint16(n.groups[i:]))
}

// groupBase is what a group counts up to.
const groupBase = 10_000

func (n *numeric) sum(into *Sum) error {
	// More than 100 digits are no sum of bigints.
	if n.weight > 25 {
		return fmt.Errorf("sum of %d digits", 4*n.weight)
	}
	var small int64
	p := n.weight
	for ; p >= 0 && small < 1<<48; p-- {
		small = small*groupBase + n.group(p)
	}
	if p < 0 {
		if n.negative {
			small = -small
		}
		*into = NewSum(small)
		return nil
	}
	large, base := big.NewInt(small), big.NewInt(groupBase)
	for ; p >= 0; p-- {
		large.Mul(large, base)
		large.Add(large, big.NewInt(n.group(p)))
	}
	if n.negative {
		large.Neg(large)
	}
	*into = sumOf(large)
	return nil
}

// groupsPerSlot is how many groups hold a slot of a histogram.
const groupsPerSlot = slotDigits / 4

func (n *numeric) histogram(into *Histogram, memory *slab) error {
	*into = Histogram{}
	if len(n.groups) == 0 {
		return nil
	}
	used := n.weight/groupsPerSlot + 1
	if n.negative || used > histogramSlots {
		return fmt.Errorf("%d slots, want %d at most", used, histogramSlots)
	}
	into.slots = memory.take(used)
	for i := range into.slots {
		into.slots[i] = n.slot(i)
		into.total += into.slots[i]
	}
	return nil
}

// slot returns the three groups that hold a slot as one number.
func (n *numeric) slot(i int) int64 {
	p := i * groupsPerSlot
	end := 2*(n.weight-p) + 2
	if end < 2*groupsPerSlot || end > len(n.groups) { // Not all of them are there.
		return (n.group(p+2)*groupBase+n.group(p+1))*groupBase + n.group(p)
	}
	three := n.groups[end-2*groupsPerSlot : end]
	return (int64(binary.BigEndian.Uint16(three))*groupBase+int64(binary.BigEndian.Uint16(three[2:])))*groupBase +
		int64(binary.BigEndian.Uint16(three[4:]))
}
