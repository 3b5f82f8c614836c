package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema"
)

// Append appends e as the message of event.proto to dst.
func Append(dst []byte, e *schema.Event) []byte {
	dst = appendID(dst, 1, e.ID)
	dst = appendID(dst, 2, e.AccountID)
	dst = appendText(dst, 3, e.Agent)
	dst = appendText(dst, 4, e.Provider)
	dst = appendText(dst, 5, e.Model)
	dst = appendText(dst, 6, e.SessionID)
	dst = appendFlag(dst, 7, e.SessionImplicit)
	dst = appendNumber(dst, 8, e.Time.UnixMicro())
	dst = appendNumber(dst, 9, e.ReceivedAt.UnixMicro())
	dst = appendNumber(dst, 10, e.InputTokens)
	dst = appendNumber(dst, 11, e.OutputTokens)
	dst = appendNumber(dst, 12, e.CacheReadTokens)
	dst = appendNumber(dst, 13, e.CacheWriteTokens)
	dst = appendNumber(dst, 14, e.CacheWrite1hTokens)
	dst = appendNumber(dst, 15, e.ReasoningTokens)
	if e.LatencyMS != schema.NoLatency {
		dst = protowire.AppendVarint(appendTag(dst, 16, protowire.VarintType), uint64(e.LatencyMS))
	}
	dst = appendNumber(dst, 17, int64(e.Cost))
	dst = appendNumber(dst, 18, costSourceNumber(e.Source))
	dst = appendText(dst, 19, e.PriceID)
	dst = appendFlag(dst, 21, e.Status == schema.StatusError)
	dst = appendText(dst, 22, e.ErrorType)
	dst = appendText(dst, 23, e.Step)
	dst = appendID(dst, 24, e.Parent)
	dst = appendText(dst, 25, e.UserID)
	for _, tag := range e.Tags {
		dst = append(appendLength(appendTag(dst, 26, protowire.BytesType), len(tag)), tag...)
	}
	dst = appendText(dst, 27, e.Metadata)
	dst = appendText(dst, 28, e.IdempotencyKey)
	for _, lease := range e.Leases {
		dst = appendID(dst, 29, lease)
	}
	if isBreakdownJSON(e.Breakdown) { // It was read from a record of an earlier version.
		return appendText(dst, 20, e.Breakdown)
	}
	return appendText(dst, 30, e.Breakdown)
}

// The functions append a field and, as proto3 has it, leave it out where it holds its
// zero value.

func appendNumber(dst []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(appendTag(dst, field, protowire.VarintType), uint64(v))
}

func appendFlag(dst []byte, field protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendTag(dst, field, protowire.VarintType), 1)
}

func appendText[T string | []byte](dst []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(appendLength(appendTag(dst, field, protowire.BytesType), len(v)), v...)
}

// appendLength appends a length, which is one byte as a rule.
func appendLength(dst []byte, n int) []byte {
	if n < 0x80 {
		return append(dst, byte(n))
	}
	return protowire.AppendVarint(dst, uint64(n))
}

func appendID(dst []byte, field protowire.Number, id schema.ID) []byte {
	if id.IsZero() {
		return dst
	}
	return append(append(appendTag(dst, field, protowire.BytesType), byte(len(id))), id[:]...)
}

// appendTag appends the tag of one of the fields of event.proto, which have numbers
// below 2048: one byte or two.
func appendTag(dst []byte, field protowire.Number, kind protowire.Type) []byte {
	if field < 16 {
		return append(dst, byte(field)<<3|byte(kind))
	}
	return append(dst, byte(field)<<3|byte(kind)|0x80, byte(field>>4))
}

// The numbers of CostSource in event.proto; the index is the number.
var costSources = [...]schema.CostSource{
	1: schema.CostCalculated,
	2: schema.CostClient,
	3: schema.CostNoUsage,
	4: schema.CostUnpriced,
}

func costSourceNumber(s schema.CostSource) int64 {
	for n, source := range costSources {
		if source == s {
			return int64(n)
		}
	}
	return 0
}
