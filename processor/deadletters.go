package processor

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/wire"
)

// sendDeadLetters copies the dead records of a batch to the dead-letter topic and waits until Kafka has them. It comes before the
// save that moves past them, so a crash in between may copy a record twice and never lose it: topic, partition and offset in its
// headers distinguish copies.
func (p *Processor) sendDeadLetters(ctx context.Context, b batch) error {
	for i := range b {
		it := &b[i]
		if it.Dead == nil || it.copied {
			continue
		}
		if err := p.producer.Load().ProduceSync(ctx, deadLetter(p.dead, it)).FirstErr(); err != nil {
			return fmt.Errorf("copy a record to the dead letters: %w", err)
		}
		it.copied = true
	}
	return nil
}

// deadLetter returns the copy of a record: its key, value and headers, with headers for where it was and why it is dead.
func deadLetter(topic string, it *item) *kgo.Record {
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	return &kgo.Record{
		Topic: topic, Key: it.record.Key, Value: it.record.Value,
		Headers: append(slices.Clone(it.record.Headers),
			header(wire.TopicHeader, it.record.Topic),
			header(wire.PartitionHeader, strconv.Itoa(int(it.Partition))),
			header(wire.OffsetHeader, strconv.FormatInt(it.Offset, 10)),
			header(wire.ReasonHeader, string(it.Dead.Reason)),
			header(wire.SQLStateHeader, it.Dead.SQLState)),
	}
}
