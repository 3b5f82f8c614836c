// Package topic looks at the Kafka topics that the tiers meet in: whether what ingest
// produces can be written. Making topics is the operator's.
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
	topics, err := admin.ListTopics(ctx, name)
	if err != nil {
		return 0, nil, err
	}
	if err := topics.Error(); err != nil {
		return 0, nil, fmt.Errorf("topic %s: %w", name, err)
	}
	all := topics[name].Partitions.Sorted()
	needed := minInSync(ctx, admin, name)
	for _, p := range all {
		if err := writable(p, needed); err != nil {
			failures = append(failures, fmt.Errorf("partition %d of topic %s %w", p.Partition, name, err))
		}
	}
	return len(all), failures, nil
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

// minInSync returns how many replicas have to be in sync for a write; 1 where the
// configuration may not be read.
func minInSync(ctx context.Context, admin *kadm.Client, name string) int {
	all, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return 1
	}
	described, err := all.On(name, nil)
	if err != nil {
		return 1
	}
	for _, c := range described.Configs {
		if c.Key != "min.insync.replicas" || c.Value == nil {
			continue
		}
		if n, err := strconv.Atoi(*c.Value); err == nil {
			return n
		}
	}
	return 1
}
