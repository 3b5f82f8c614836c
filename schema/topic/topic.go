// Package topic looks at the Kafka topics that the tiers meet in: whether Kafka
// answers about them, and whether what ingest produces can be written. Making topics is
// the operator's.
package topic

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Writable returns how many partitions a topic has, and an error for each that Kafka
// does not write to now: no broker leads it, as after a failure of a disk, or too few
// replicas are in sync. A partition without an error may still refuse writes for
// reasons that only the broker knows. err means that Kafka does not answer, or not
// about this topic.
func Writable(ctx context.Context, admin *kadm.Client, name string) (partitions int, failures []error, err error) {
	found, err := find(ctx, admin, name)
	if err != nil {
		return 0, nil, err
	}
	all := found.Partitions.Sorted()
	needed := setting(ctx, admin, name, "min.insync.replicas", 1) // how many have to be in sync for a write
	for _, p := range all {
		if err := writable(p, needed); err != nil {
			failures = append(failures, fmt.Errorf("partition %d of topic %s %w", p.Partition, name, err))
		}
	}
	return len(all), failures, nil
}

// find asks Kafka about a topic.
func find(ctx context.Context, admin *kadm.Client, name string) (kadm.TopicDetail, error) {
	topics, err := admin.ListTopics(ctx, name)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	if err := topics.Error(); err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("topic %s: %w", name, err)
	}
	return topics[name], nil
}

func writable(p kadm.PartitionDetail, needed int) error {
	switch {
	case p.Leader < 0:
		return errors.Join(errors.New("has no leader: look at the brokers' disks and logs"), p.Err)
	case p.Err != nil && !errors.Is(p.Err, kerr.ReplicaNotAvailable): // which is about another replica
		return fmt.Errorf("cannot be used: %w", p.Err)
	case len(p.ISR) < min(needed, len(p.Replicas)): // Kafka never needs more than there are.
		return fmt.Errorf("has %d replicas in sync and takes writes with %d (min.insync.replicas): bring brokers back", len(p.ISR), needed)
	}
	return nil
}

// LargestBatch is how much ingest sends to a partition at once at most, in bytes.
const LargestBatch = 1_000_012

// defaultMaxMessage is Kafka's default of max.message.bytes.
const defaultMaxMessage = 1_048_588

// TakesBatches returns an error when the topic is set to refuse a batch that ingest may
// send. Small batches may pass, so a topic fails only under load.
func TakesBatches(ctx context.Context, admin *kadm.Client, name string) error {
	if n := setting(ctx, admin, name, "max.message.bytes", defaultMaxMessage); n < LargestBatch {
		return fmt.Errorf("topic %s refuses batches of more than %d bytes, and ingest sends up to %d: set max.message.bytes=%d",
			name, n, LargestBatch, defaultMaxMessage)
	}
	return nil
}

// setting returns a number of the topic's configuration, or otherwise where it may not be
// read.
func setting(ctx context.Context, admin *kadm.Client, name, key string, otherwise int) int {
	all, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return otherwise
	}
	described, err := all.On(name, nil)
	if err != nil {
		return otherwise
	}
	for _, c := range described.Configs {
		if c.Key != key || c.Value == nil {
			continue
		}
		if n, err := strconv.Atoi(*c.Value); err == nil {
			return n
		}
	}
	return otherwise
}
