package processor

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// batch is what one poll brought, sorted by partition and offset.
type batch []item

// item is a record with the event in it.
type item struct {
	timescale.Item
	// record is kept until the batch is stored, for a copy as a dead letter.
	record *kgo.Record
	// copied is set once the dead-letter topic has the record.
	copied bool
}

// decode reads the records of one poll. A record that is not an event becomes a
// dead letter, so that it never stops its partition.
//
// Whether an event is late is known only where the topic has the broker's time: lateAfter its arrival or later.
func decode(fetches kgo.Fetches, lateAfter time.Duration) batch {
	// Partitions come in any order, and the offsets of one in theirs.
	b := make(batch, 0, fetches.NumRecords())
	fetches.EachRecord(func(r *kgo.Record) {
		it := item{record: r}
		it.Partition, it.Offset = r.Partition, r.Offset
		if version := version(r); version != wire.Version {
			it.Dead = &timescale.DeadLetter{
				Reason: timescale.ReasonVersion,
				Detail: "the record has another schema version than this processor reads",
			}
		} else if err := wire.Decode(r.Value, &it.Event); err != nil {
			it.Dead = &timescale.DeadLetter{Reason: timescale.ReasonNotEvent, Detail: err.Error()}
		}
		if it.Dead != nil {
			// What was read of it so far may be anything.
			it.Event = schema.Event{AccountID: wire.KeyAccount(r.Key), ReceivedAt: r.Timestamp}
		}
		it.Late = len(it.Event.Leases) > 0 && r.Attrs.TimestampType() == logAppendTime && r.Timestamp.Sub(it.Event.ReceivedAt) >= lateAfter
		b = append(b, it)
	})
	slices.SortFunc(b, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return b
}

// logAppendTime is the type of timestamps that brokers set.
const logAppendTime = 1

// version returns the schema version of a record, or "".
func version(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == wire.VersionHeader {
			return string(h.Value)
		}
	}
	return ""
}

// spans returns what the batch holds of each partition. ok is false when there
// is a gap inside a partition, over which nothing may be stored.
func (b batch) spans() (spans []timescale.Span, ok bool) {
	for _, it := range b {
		if n := len(spans); n > 0 && spans[n-1].Partition == it.Partition {
			if it.Offset != spans[n-1].Next {
				return nil, false
			}
			spans[n-1].Next++
			continue
		}
		spans = append(spans, timescale.Span{Partition: it.Partition, First: it.Offset, Next: it.Offset + 1})
	}
	return spans, true
}

// after drops the records that are stored already, given where the partitions
// stand. ok is false when a partition stands before the batch, or is unknown:
// then records in between are missing and have to be read again.
func (b batch) after(next map[int32]int64) (rest batch, ok bool) {
	// Only the first record of a partition shows whether something before it is missing.
	seen := map[int32]bool{}
	for _, it := range b {
		n, known := next[it.Partition]
		if !known || !seen[it.Partition] && it.Offset > n {
			return nil, false
		}
		seen[it.Partition] = true
		if it.Offset >= n {
			rest = append(rest, it)
		}
	}
	return rest, true
}

// items returns what the sink stores. The events are copied, so the sink never sees what is changed in b afterwards.
func (b batch) items() []timescale.Item {
	items := make([]timescale.Item, len(b))
	for i := range b {
		items[i] = b[i].Item
	}
	return items
}

// committable returns the offsets to show to lag tools once the batch is stored.
func (b batch) committable(topic string) map[string]map[int32]kgo.EpochOffset {
	// The last record of a partition wins: the batch is sorted by offset.
	next := map[int32]kgo.EpochOffset{}
	for _, it := range b {
		next[it.Partition] = kgo.EpochOffset{Epoch: it.record.LeaderEpoch, Offset: it.Offset + 1}
	}
	return map[string]map[int32]kgo.EpochOffset{topic: next}
}
