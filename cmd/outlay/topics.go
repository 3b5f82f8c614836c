package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// retentionFlags set how long Kafka has to keep events.
type retentionFlags struct {
	Retention time.Duration `name:"kafka-retention" default:"168h" help:"How long Kafka keeps events: the longest the database may be away."`
}

// topicFlags set how the topics are made. Topics that exist are left as they are, but have to be safe.
type topicFlags struct {
	retentionFlags
	Partitions  int32 `name:"kafka-partitions" default:"12" help:"Partitions of the events topic: the most processors that can share the work."`
	Replication int16 `name:"kafka-replication" default:"-1" help:"Copies of each partition. -1 means 3, or one on each broker where there are fewer than 3."`
	AllowRisky  bool  `name:"kafka-allow-risky-topics" help:"Only warn about topics that could lose acknowledged events, instead of refusing them: too few copies, one in-sync copy enough, unclean leader election, events kept for less than --kafka-retention."`
}

// fullReplication is how many copies survive the loss of a broker while another one is restarted.
const fullReplication = 3

// safeInSync is how many copies have to have an event before it is acknowledged, wherever there is more than one copy: with one
// the loss of a single broker can lose it.
const safeInSync = 2

// ensure makes the topics that do not exist, and refuses those that exist and could lose what was acknowledged.
func (f topicFlags) ensure(ctx context.Context, client *kgo.Client, names topicNames, log *slog.Logger) error {
	if f.Partitions < 1 || f.Retention < time.Hour {
		return errors.New("--kafka-partitions must be at least 1 and --kafka-retention at least 1h")
	}
	admin := kadm.NewClient(client)
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("list the brokers: %w", err)
	}
	// Three copies survive a broker that dies while another restarts, and more only cost.
	replication := f.Replication
	if replication < 0 {
		replication = int16(min(fullReplication, len(brokers)))
	}
	// These are the settings without which an acknowledged event could be lost; the others are Kafka's own.
	configs := map[string]*string{
		"cleanup.policy": kadm.StringPtr("delete"),
		// Retention follows the broker's clock, so that no client's clock can
		// have unread events deleted.
		"message.timestamp.type":         kadm.StringPtr("LogAppendTime"),
		"unclean.leader.election.enable": kadm.StringPtr("false"),
		"retention.ms":                   kadm.StringPtr(strconv.FormatInt(f.Retention.Milliseconds(), 10)),
		"retention.bytes":                kadm.StringPtr("-1"),
	}
	if replication > 1 {
		configs["min.insync.replicas"] = kadm.StringPtr(strconv.Itoa(safeInSync))
	}
	// Topics that this run made need no check.
	var existing []string
	for _, topic := range []struct {
		name       string
		partitions int32
	}{{names.Topic, f.Partitions}, {names.DeadLetters, 1}} {
		_, err := admin.CreateTopic(ctx, topic.partitions, replication, configs, topic.name)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists):
			existing = append(existing, topic.name)
		case err != nil:
			return fmt.Errorf("create topic %s: %w", topic.name, err)
		}
	}
	risks, err := topicRisks(ctx, admin, f.Retention, existing...)
	if err != nil {
		return err
	}
	for _, risk := range risks {
		if !f.AllowRisky {
			return fmt.Errorf("acknowledged events could be lost:\n  %s\nchange this in Kafka, or pass --kafka-allow-risky-topics", strings.Join(risks, "\n  "))
		}
		log.WarnContext(ctx, "a topic could lose acknowledged events", "risk", risk)
	}
	return nil
}

// topicRisks returns why topics could lose what was acknowledged, a sentence for each reason.
func topicRisks(ctx context.Context, admin *kadm.Client, retention time.Duration, names ...string) (risks []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the brokers: %w", err)
	}
	// Copies are compared with the brokers that there are: a cluster of one can have one copy only.
	details, err := admin.ListTopics(ctx, names...)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("look at the topics: %w", err)
	}
	settings, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the topics: %w", err)
	}
	for _, name := range names {
		topic := topicState{name: name, brokers: len(brokers), copies: leastCopies(details[name]), settings: map[string]string{}}
		found, err := settings.On(name, nil)
		if err = cmp.Or(err, found.Err); err != nil {
			return nil, fmt.Errorf("read the settings of topic %s, for which the user needs the right DescribeConfigs: %w", name, err)
		}
		for _, c := range found.Configs {
			topic.settings[c.Key] = c.MaybeValue()
		}
		risks = append(risks, topic.risks(retention)...)
	}
	return risks, nil
}

// leastCopies returns how many copies the partition with the fewest has.
func leastCopies(topic kadm.TopicDetail) int {
	least := math.MaxInt
	for _, p := range topic.Partitions {
		least = min(least, len(p.Replicas))
	}
	return least
}

// topicState is what matters of a topic for whether it keeps what it acknowledged.
type topicState struct {
	name string
	// brokers is how many the cluster has, and copies how many each partition has.
	brokers, copies int
	// settings are the topic's own and the brokers' defaults. One that is not there has Kafka's default.
	settings map[string]string
}

// risks returns why the topic could lose what was acknowledged.
func (s topicState) risks(retention time.Duration) (risks []string) {
	add := func(format string, args ...any) {
		risks = append(risks, "topic "+s.name+" "+fmt.Sprintf(format, args...))
	}
	if want := min(fullReplication, s.brokers); s.copies < want {
		add("has %d of each partition on %d brokers: reassign its partitions to have %d", s.copies, s.brokers, want)
	}
	if n := s.number("min.insync.replicas", 1); s.copies > 1 && n < safeInSync {
		add("acknowledges what only %d broker has: set min.insync.replicas=%d", n, safeInSync)
	}
	if s.settings["unclean.leader.election.enable"] == "true" {
		add("may elect a leader that lacks acknowledged events: set unclean.leader.election.enable=false")
	}
	if policy := cmp.Or(s.settings["cleanup.policy"], "delete"); policy != "delete" {
		add("deletes events by their key: set cleanup.policy=delete instead of %s", policy)
	}
	if kept := s.number("retention.ms", 7*24*time.Hour.Milliseconds()); kept >= 0 && kept < retention.Milliseconds() {
		add("keeps events for %v only, --kafka-retention is %v: set retention.ms=%d",
			time.Duration(kept)*time.Millisecond, retention, retention.Milliseconds())
	}
	if size := s.number("retention.bytes", -1); size >= 0 {
		add("deletes events beyond %d bytes whether they are stored or not: set retention.bytes=-1", size)
	}
	if s.settings["message.timestamp.type"] != "LogAppendTime" {
		add("keeps events by the clocks of clients: set message.timestamp.type=LogAppendTime")
	}
	return risks
}

// number returns a setting, or what Kafka takes when there is none.
func (s topicState) number(key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s.settings[key], 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}
