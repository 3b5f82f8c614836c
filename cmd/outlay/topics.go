package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicFlags say how the topics are made. Topics that exist are left as they are.
type topicFlags struct {
	Partitions  int32         `name:"kafka-partitions" default:"12" help:"Partitions of the events topic: the most processors that can share the work."`
	Replication int16         `name:"kafka-replication" default:"-1" help:"Copies of each partition; -1 is the broker's default. Use 3 in production."`
	Retention   time.Duration `name:"kafka-retention" default:"168h" help:"How long Kafka keeps events: the longest the database may be away."`
}

// ensure makes the topics that do not exist.
func (f topicFlags) ensure(ctx context.Context, client *kgo.Client, names topicNames) error {
	if f.Partitions < 1 || f.Retention < time.Hour {
		return errors.New("--kafka-partitions must be at least 1 and --kafka-retention at least 1h")
	}
	configs := map[string]*string{
		"cleanup.policy": kadm.StringPtr("delete"),
		// Retention follows the broker's clock, so that no client's clock can
		// have unread events deleted.
		"message.timestamp.type":         kadm.StringPtr("LogAppendTime"),
		"unclean.leader.election.enable": kadm.StringPtr("false"),
		"retention.ms":                   kadm.StringPtr(strconv.FormatInt(f.Retention.Milliseconds(), 10)),
	}
	if f.Replication >= 3 {
		configs["min.insync.replicas"] = kadm.StringPtr("2")
	}
	admin := kadm.NewClient(client)
	for _, topic := range []struct {
		name       string
		partitions int32
	}{{names.Topic, f.Partitions}, {names.DeadLetters, 1}} {
		_, err := admin.CreateTopic(ctx, topic.partitions, f.Replication, configs, topic.name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic.name, err)
		}
	}
	return nil
}
