package timescale

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// column is one array parameter in PostgreSQL's binary format, filled element by
// element. Encoding by hand costs a twentieth of what reflection costs, and this
// is the processor's hottest code.
type column struct {
	buf   []byte
	count int32
}

// arrayHeader is: dimensions, has-nulls, element type, length, lower bound.
const arrayHeader = 20

func (c *column) reset(elementType uint32) {
	if cap(c.buf) < arrayHeader {
		c.buf = make([]byte, arrayHeader, 4096)
	}
	c.buf = c.buf[:arrayHeader]
	c.count = 0
	binary.BigEndian.PutUint32(c.buf[0:], 1)
	binary.BigEndian.PutUint32(c.buf[4:], 1)
	binary.BigEndian.PutUint32(c.buf[8:], elementType)
	binary.BigEndian.PutUint32(c.buf[16:], 1)
}

// bytes returns the finished array; it is valid until the next reset.
func (c *column) bytes() []byte {
	binary.BigEndian.PutUint32(c.buf[12:], uint32(c.count))
	return c.buf
}

func (c *column) null() {
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
	c.count++
}

func (c *column) text(v string) {
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(v)))
	c.buf = append(c.buf, v...)
	c.count++
}

// optionalText stores no text as null.
func (c *column) optionalText(v string) {
	if v == "" {
		c.null()
		return
	}
	c.text(v)
}

// optionalBytes stores no bytes as null.
func (c *column) optionalBytes(v []byte) {
	if len(v) == 0 {
		c.null()
		return
	}
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(v)))
	c.buf = append(c.buf, v...)
	c.count++
}

// breakdown stores the breakdown of a cost as JSON, and as null what is none.
func (c *column) breakdown(v []byte) {
	start := len(c.buf)
	text, err := wire.AppendBreakdownJSON(append(c.buf, 0, 0, 0, 0), v)
	if len(v) == 0 || err != nil {
		c.null()
		return
	}
	c.buf = text
	binary.BigEndian.PutUint32(c.buf[start:], uint32(len(c.buf)-start-4))
	c.count++
}

func (c *column) int8(v int64) {
	c.buf = append(c.buf, 0, 0, 0, 8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
	c.count++
}

func (c *column) int4(v int32) {
	c.buf = append(c.buf, 0, 0, 0, 4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
	c.count++
}

// numericBase is what PostgreSQL counts the digits of a numeric to.
const numericBase = 10_000

// numeric adds a whole number. It is sent as how many digits there are, the weight
// of the first, the sign, the decimals, and the digits.
func (c *column) numeric(v schema.Sum) {
	var digits [10]uint16 // as many as 2^128 has
	first := len(digits)
	for hi, lo := v.Words(); hi|lo != 0; {
		var digit uint64
		digit, hi = hi%numericBase, hi/numericBase
		lo, digit = bits.Div64(digit, lo, numericBase)
		first--
		digits[first] = uint16(digit)
	}
	n := len(digits) - first
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(8+2*n))
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(n))
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(max(n-1, 0)))
	c.buf = append(c.buf, 0, 0, 0, 0)
	for _, digit := range digits[first:] {
		c.buf = binary.BigEndian.AppendUint16(c.buf, digit)
	}
	c.count++
}

func (c *column) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	c.buf = append(c.buf, 0, 0, 0, 1, b)
	c.count++
}

func (c *column) id(v schema.ID) {
	c.buf = append(c.buf, 0, 0, 0, 16)
	c.buf = append(c.buf, v[:]...)
	c.count++
}

func (c *column) optionalID(v schema.ID) {
	if v.IsZero() {
		c.null()
		return
	}
	c.id(v)
}

// postgresEpoch is 2000-01-01 in Unix microseconds: where timestamptz counts from.
const postgresEpoch = 946_684_800_000_000

func (c *column) time(v time.Time) { c.int8(v.UnixMicro() - postgresEpoch) }

// seconds adds a time that is given in Unix seconds.
func (c *column) seconds(v int64) { c.int8(v*1_000_000 - postgresEpoch) }

// optionalTime stores the zero time as null.
func (c *column) optionalTime(v time.Time) {
	if v.IsZero() {
		c.null()
		return
	}
	c.time(v)
}
