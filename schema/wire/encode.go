package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outlayhq/outlay/schema"
)

// Append appends e as the message of event.proto to dst.
func Append(dst []byte, e *schema.Event) []byte {
	w := writer(dst)
	w.id(1, e.ID)
	w.id(2, e.AccountID)
	w.text(3, e.Agent)
	w.text(4, e.Provider)
	w.text(5, e.Model)
	w.text(6, e.SessionID)
	w.flag(7, e.SessionImplicit)
	w.number(8, e.Time.UnixMicro())
	w.number(9, e.ReceivedAt.UnixMicro())
	w.number(10, e.InputTokens)
	w.number(11, e.OutputTokens)
	w.number(12, e.CacheReadTokens)
	w.number(13, e.CacheWriteTokens)
	w.number(14, e.CacheWrite1hTokens)
	w.number(15, e.ReasoningTokens)
	if e.LatencyMS != schema.NoLatency {
		w.explicitNumber(16, e.LatencyMS)
	}
	w.number(17, int64(e.Cost))
	w.number(18, costSourceNumber(e.Source))
	w.text(19, e.PriceID)
	w.bytes(20, e.Breakdown)
	w.flag(21, e.Status == schema.StatusError)
	w.text(22, e.ErrorType)
	w.text(23, e.Step)
	w.id(24, e.Parent)
	w.text(25, e.UserID)
	for _, tag := range e.Tags {
		w.explicitText(26, tag)
	}
	w.bytes(27, e.Metadata)
	w.text(28, e.IdempotencyKey)
	for _, lease := range e.Leases {
		w.id(29, lease)
	}
	return w
}

// writer appends fields and, as proto3 has it, leaves out those that hold their
// zero value.
type writer []byte

func (w *writer) number(field protowire.Number, v int64) {
	if v != 0 {
		w.explicitNumber(field, v)
	}
}

func (w *writer) explicitNumber(field protowire.Number, v int64) {
	*w = protowire.AppendVarint(protowire.AppendTag(*w, field, protowire.VarintType), uint64(v))
}

func (w *writer) flag(field protowire.Number, v bool) {
	if v {
		w.explicitNumber(field, 1)
	}
}

func (w *writer) text(field protowire.Number, v string) {
	if v != "" {
		w.explicitText(field, v)
	}
}

func (w *writer) explicitText(field protowire.Number, v string) {
	*w = protowire.AppendString(protowire.AppendTag(*w, field, protowire.BytesType), v)
}

func (w *writer) bytes(field protowire.Number, v []byte) {
	if len(v) > 0 {
		*w = protowire.AppendBytes(protowire.AppendTag(*w, field, protowire.BytesType), v)
	}
}

func (w *writer) id(field protowire.Number, id schema.ID) {
	if !id.IsZero() {
		w.bytes(field, id[:])
	}
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
