package processor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/wire"
)

// letters writes records that cannot be stored to the dead-letter topic.
type letters struct {
	client *kgo.Client
	topic  string
}

// send copies the dead records of a batch to the dead-letter topic and waits
// until Kafka has them. It comes before the save that moves past them, so a
// crash in between may copy one twice, never lose it: topic, partition and offset
// in its headers distinguish copies.
func (l *letters) send(ctx context.Context, b batch) error {
	for i := range b {
		it := &b[i]
		if it.Dead == nil || it.copied {
			continue
		}
		if err := l.client.ProduceSync(ctx, letter(l.topic, it)).FirstErr(); err != nil {
			return fmt.Errorf("copy a record to the dead letters: %w", err)
		}
		it.copied = true
	}
	return nil
}

func letter(topic string, it *item) *kgo.Record {
	headers := append([]kgo.RecordHeader(nil), it.record.Headers...)
	for _, h := range []struct{ key, value string }{
		{wire.TopicHeader, it.record.Topic},
		{wire.PartitionHeader, strconv.Itoa(int(it.Partition))},
		{wire.OffsetHeader, strconv.FormatInt(it.Offset, 10)},
		{wire.ReasonHeader, string(it.Dead.Reason)},
		{wire.SQLStateHeader, it.Dead.SQLState},
	} {
		headers = append(headers, kgo.RecordHeader{Key: h.key, Value: []byte(h.value)})
	}
	return &kgo.Record{
		Topic: topic, Key: it.record.Key, Value: it.record.Value, Headers: headers,
	}
}
