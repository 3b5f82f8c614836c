package timescale

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// array is one parameter of the statement that stores a batch: an array in PostgreSQL's binary format, filled element by
// element. It is encoded by hand because that costs a twentieth of what pgx's reflection costs, and no other code of the
// processor runs as often. Its memory is kept from batch to batch.
type array struct {
	buf   []byte
	count int32
}

// arrayHeader is the length in bytes of: dimensions, has-nulls, element type, length, lower bound.
const arrayHeader = 20

// reset removes all elements. elementType is an OID.
func (a *array) reset(elementType uint32) {
	if cap(a.buf) < arrayHeader {
		a.buf = make([]byte, arrayHeader, 4096)
	}
	a.buf = a.buf[:arrayHeader]
	a.count = 0
	binary.BigEndian.PutUint32(a.buf[0:], 1)
	binary.BigEndian.PutUint32(a.buf[4:], 1)
	binary.BigEndian.PutUint32(a.buf[8:], elementType)
	binary.BigEndian.PutUint32(a.buf[16:], 1)
}

// bytes returns the finished array; it is valid until the next reset.
func (a *array) bytes() []byte {
	binary.BigEndian.PutUint32(a.buf[12:], uint32(a.count))
	return a.buf
}

// element begins an element of n bytes, which the caller appends to buf. -1 is null.
func (a *array) element(n int) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(n))
	a.count++
}

func (a *array) null() { a.element(-1) }

func (a *array) text(v string) {
	a.element(len(v))
	a.buf = append(a.buf, v...)
}

// optionalText stores no text as null.
func (a *array) optionalText(v string) {
	if v == "" {
		a.null()
		return
	}
	a.text(v)
}

// optionalBytes stores no bytes as null.
func (a *array) optionalBytes(v []byte) {
	if len(v) == 0 {
		a.null()
		return
	}
	a.element(len(v))
	a.buf = append(a.buf, v...)
}

// breakdown stores the breakdown of a cost as JSON. One that is empty or cannot be read is stored as null: a batch does not fail
// for a detail that no sum depends on.
func (a *array) breakdown(v []byte) {
	// The length is written when the text is complete.
	start := len(a.buf)
	text, err := wire.AppendBreakdownJSON(append(a.buf, 0, 0, 0, 0), v)
	if len(v) == 0 || err != nil {
		a.null()
		return
	}
	a.buf = text
	binary.BigEndian.PutUint32(a.buf[start:], uint32(len(a.buf)-start-4))
	a.count++
}

func (a *array) int8(v int64) {
	a.element(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

// latency adds milliseconds, and schema.NoLatency as null.
func (a *array) latency(ms int64) {
	if ms == schema.NoLatency {
		a.null()
		return
	}
	a.int8(ms)
}

func (a *array) int4(v int32) {
	a.element(4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
}

// numericBase is the base of the digits in PostgreSQL's format of a numeric.
const numericBase = 10_000

// numeric adds a sum of tokens or nano-dollars.
func (a *array) numeric(v schema.Sum) {
	var digits [10]uint16 // as many as 2^128 has
	first := len(digits)
	for hi, lo := v.Words(); hi|lo != 0; {
		var digit uint64
		digit, hi = hi%numericBase, hi/numericBase
		lo, digit = bits.Div64(digit, lo, numericBase)
		first--
		digits[first] = uint16(digit)
	}
	a.digits(digits[first:])
}

// digits adds a whole number that is not negative, the highest digit first and not 0. PostgreSQL's format is: how many digits
// there are, the power of the first, the sign, the number of decimals, and the digits.
func (a *array) digits(digits []uint16) {
	a.element(8 + 2*len(digits))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(len(digits)))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(max(len(digits)-1, 0)))
	a.buf = append(a.buf, 0, 0, 0, 0)
	for _, digit := range digits {
		a.buf = binary.BigEndian.AppendUint16(a.buf, digit)
	}
}

func (a *array) bool(v bool) {
	a.element(1)
	b := byte(0)
	if v {
		b = 1
	}
	a.buf = append(a.buf, b)
}

func (a *array) id(v schema.ID) {
	a.element(len(v))
	a.buf = append(a.buf, v[:]...)
}

// optionalID stores the zero id as null.
func (a *array) optionalID(v schema.ID) {
	if v.IsZero() {
		a.null()
		return
	}
	a.id(v)
}

// postgresEpoch is 2000-01-01 in Unix microseconds: where timestamptz counts from.
const postgresEpoch = 946_684_800_000_000

func (a *array) time(v time.Time) { a.int8(v.UnixMicro() - postgresEpoch) }

// seconds adds a time that is given in Unix seconds.
func (a *array) seconds(v int64) { a.int8(v*1_000_000 - postgresEpoch) }

// optionalTime stores the zero time as null.
func (a *array) optionalTime(v time.Time) {
	if v.IsZero() {
		a.null()
		return
	}
	a.time(v)
}
