package timescale

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// array is one parameter of the statement that stores a batch: an array in PostgreSQL's binary format, filled element by
// element. Encoding by hand costs a twentieth of what reflection costs, and this
// is the processor's hottest code.
type array struct {
	buf   []byte
	count int32
}

// arrayHeader is: dimensions, has-nulls, element type, length, lower bound.
const arrayHeader = 20

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

func (a *array) null() {
	a.buf = append(a.buf, 0xff, 0xff, 0xff, 0xff)
	a.count++
}

func (a *array) text(v string) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(v)))
	a.buf = append(a.buf, v...)
	a.count++
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
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(v)))
	a.buf = append(a.buf, v...)
	a.count++
}

// breakdown stores the breakdown of a cost as JSON, and as null what is none.
func (a *array) breakdown(v []byte) {
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
	a.buf = append(a.buf, 0, 0, 0, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
	a.count++
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
	a.buf = append(a.buf, 0, 0, 0, 4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
	a.count++
}

// numericBase is what PostgreSQL counts the digits of a numeric to.
const numericBase = 10_000

// numeric adds a whole number. It is sent as how many digits there are, the weight
// of the first, the sign, the decimals, and the digits.
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
	n := len(digits) - first
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(8+2*n))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(n))
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(max(n-1, 0)))
	a.buf = append(a.buf, 0, 0, 0, 0)
	for _, digit := range digits[first:] {
		a.buf = binary.BigEndian.AppendUint16(a.buf, digit)
	}
	a.count++
}

func (a *array) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	a.buf = append(a.buf, 0, 0, 0, 1, b)
	a.count++
}

func (a *array) id(v schema.ID) {
	a.buf = append(a.buf, 0, 0, 0, 16)
	a.buf = append(a.buf, v[:]...)
	a.count++
}

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
