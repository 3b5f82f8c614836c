package processor

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema/backoff"
)

// progressInterval is how often lag is measured and completeness noted.
const progressInterval = time.Second

// leftTopicsEvery is in how many measurements completeness is noted once for topics that were stored from before.
const leftTopicsEvery = 10

// watchProgress measures lag and notes in the database up to which time
// everything that Kafka has acknowledged is stored.
func (p *Processor) watchProgress(ctx context.Context, client *kgo.Client) error {
	// seen is used by this goroutine alone.
	admin := kadm.NewClient(client)
	seen := sightings{pending: map[int32]timescale.Mark{}, known: map[int32]bool{}}
	for n := 0; backoff.Sleep(ctx, progressInterval) == nil; n++ {
		err := p.progress(ctx, admin, seen)
		if n%leftTopicsEvery == 0 {
			err = errors.Join(err, p.leftTopics(ctx, admin))
		}
		if err != nil && ctx.Err() == nil {
			p.log.DebugContext(ctx, "progress not noted", "error", err)
		}
	}
	return nil
}

// sightings is what earlier measurements saw of the topic.
type sightings struct {
	// pending holds, for each partition, the end of the log at an earlier moment which was not reached then: it is kept until it
	// is reached, or a busy partition would never be complete up to any time.
	pending map[int32]timescale.Mark
	// known are the partitions that have a row in kafka_offsets.
	known map[int32]bool
}

// progress takes one measurement.
func (p *Processor) progress(ctx context.Context, admin *kadm.Client, seen sightings) error {
	pending := seen.pending
	ctx, cancel := context.WithTimeout(ctx, 10*progressInterval)
	defer cancel()
	// The order matters: positions and time are taken before the ends, so what arrives in between is not taken for stored.
	next := p.owned.positions()
	at := p.now()
	ends, err := admin.ListEndOffsets(ctx, p.topic)
	if err != nil {
		return err
	}
	if err := p.notePartitions(ctx, ends, at, seen.known); err != nil {
		return err
	}
	// Partitions that were lost leave no old lag behind.
	p.metrics.lag.Reset()
	p.metrics.holes.Set(float64(p.owned.stopped()))
	var reached []timescale.Mark
	for partition, position := range next {
		end, ok := ends.Lookup(p.topic, partition)
		if !ok || end.Err != nil {
			continue
		}
		p.metrics.observeLag(partition, max(0, end.Offset-position))
		mark, waiting := pending[partition]
		if waiting && mark.End > position {
			continue
		}
		if waiting {
			reached = append(reached, mark)
			delete(pending, partition)
		}
		if mark = (timescale.Mark{Partition: partition, End: end.Offset, At: at}); mark.End > position {
			pending[partition] = mark
		} else {
			reached = append(reached, mark)
		}
	}
	maps.DeleteFunc(pending, func(partition int32, _ timescale.Mark) bool {
		_, owned := next[partition]
		return !owned
	})
	if len(reached) == 0 {
		return nil
	}
	return p.positions.Complete(ctx, reached)
}

// notePartitions gives partitions that were added to the topic their row in kafka_offsets as soon as they exist, so that events in
// them hold completeness back, and has the consumer look for them now: by itself it looks every five minutes. at is a time before
// ends were asked for.
func (p *Processor) notePartitions(ctx context.Context, ends kadm.ListedOffsets, at time.Time, known map[int32]bool) error {
	var added []timescale.Mark
	for partition, end := range ends[p.topic] {
		if !known[partition] && end.Err == nil {
			added = append(added, timescale.Mark{Partition: partition, End: end.Offset, At: at})
		}
	}
	if len(added) == 0 {
		return nil
	}
	if err := p.positions.Note(ctx, added); err != nil {
		return err
	}
	for _, mark := range added {
		known[mark.Partition] = true
	}
	if consumer := p.consumer.Load(); consumer != nil {
		consumer.ForceMetadataRefresh()
	}
	return nil
}

// leftTopics notes for topics that no processor takes events from any more, since it was given another, that all they have is stored:
// what is complete is so up to the time at which the last of all topics is. A topic with events that are not stored, or that Kafka does
// not know, holds it back as before.
func (p *Processor) leftTopics(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*progressInterval)
	defer cancel()
	topics, err := p.positions.Others(ctx)
	if err != nil || len(topics) == 0 {
		return err
	}
	at := p.now()
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		var marks []timescale.Mark
		for partition, end := range ends[topic] {
			if end.Err == nil {
				marks = append(marks, timescale.Mark{Partition: partition, End: end.Offset, At: at})
			}
		}
		if err := timescale.NewPositions(p.pool, topic).Complete(ctx, marks); err != nil {
			return err
		}
	}
	return nil
}
