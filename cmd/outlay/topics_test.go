package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/schematest"
)

// Each setting with which a topic could lose what it acknowledged is found, and a safe topic has none.
func TestTopicRisksAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		brokers, copies int
		change          map[string]string
		want            string // "" is no risk.
	}{
		"safe":                    {3, 3, nil, ""},
		"the only broker":         {1, 1, map[string]string{"min.insync.replicas": "1"}, ""},
		"two brokers":             {2, 2, nil, ""},
		"one copy of three":       {3, 1, nil, "has 1 of each partition on 3 brokers"},
		"two copies of three":     {3, 2, nil, "has 2 of each partition on 3 brokers"},
		"one in sync":             {3, 3, map[string]string{"min.insync.replicas": "1"}, "set min.insync.replicas=2"},
		"Kafka's default in sync": {2, 2, map[string]string{"min.insync.replicas": ""}, "set min.insync.replicas=2"},
		"unclean":                 {3, 3, map[string]string{"unclean.leader.election.enable": "true"}, "set unclean.leader.election.enable=false"},
		"compacted":               {3, 3, map[string]string{"cleanup.policy": "compact,delete"}, "set cleanup.policy=delete"},
		"short":                   {3, 3, map[string]string{"retention.ms": "3600000"}, "keeps events for 1h0m0s only"},
		"for ever":                {3, 3, map[string]string{"retention.ms": "-1"}, ""},
		"by size":                 {3, 3, map[string]string{"retention.bytes": "1000"}, "set retention.bytes=-1"},
		"by clients' clocks":      {3, 3, map[string]string{"message.timestamp.type": "CreateTime"}, "set message.timestamp.type=LogAppendTime"},
	} {
		s := topicState{name: "t", brokers: c.brokers, copies: c.copies, settings: map[string]string{
			"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "cleanup.policy": "delete",
			"retention.ms": "604800000", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime",
		}}
		for key, value := range c.change {
			s.settings[key] = value
		}
		got := s.risks(7 * 24 * time.Hour)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Where there are three brokers the topics get three copies, of which two have to have an event before it is acknowledged. What
// was made is not found risky later.
func TestTopicsAreMadeSafe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addrs  []string
		copies int
		inSync string
	}{
		"three brokers": {schematest.FakeKafka(t, kfake.NumBrokers(3)).ListenAddrs(), 3, "2"},
		"one broker":    {schematest.FakeKafka(t, kfake.NumBrokers(1)).ListenAddrs(), 1, ""},
		"kafka":         {schematest.Kafka(t), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, names := topicClient(t, c.addrs)
			f := topicFlags{Partitions: 2, Replication: -1, retentionFlags: retentionFlags{48 * time.Hour}}
			for range 2 { // The second time they exist.
				if err := f.ensure(t.Context(), client, names, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
			}
			admin := kadm.NewClient(client)
			details, err := admin.ListTopics(t.Context(), names.Topic)
			if err = errors.Join(err, details.Error()); err != nil {
				t.Fatal(err)
			}
			settings, err := admin.DescribeTopicConfigs(t.Context(), names.Topic)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, config := range settings[0].Configs {
				if _, asked := map[string]bool{"min.insync.replicas": true, "retention.ms": true}[config.Key]; asked && config.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
					got[config.Key] = config.MaybeValue()
				}
			}
			want := map[string]string{"retention.ms": "172800000"}
			if c.inSync != "" {
				want["min.insync.replicas"] = c.inSync
			}
			if diff := cmp.Diff(want, got); diff != "" || leastCopies(details[names.Topic]) != c.copies {
				t.Errorf("%d copies, want %d, settings (-want +got):\n%s", leastCopies(details[names.Topic]), c.copies, diff)
			}
		})
	}
}

// A topic of somebody else's on a real Kafka that could lose events is refused, with what to do, unless it is allowed; check finds
// it too.
func TestRiskyTopicIsRefused(t *testing.T) {
	t.Parallel()
	client, names := topicClient(t, schematest.Kafka(t))
	admin := kadm.NewClient(client)
	for _, name := range []string{names.Topic, names.DeadLetters} {
		_, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{
			"retention.ms": kadm.StringPtr("3600000"), "unclean.leader.election.enable": kadm.StringPtr("true"),
		}, name)
		if err != nil {
			t.Fatal(err)
		}
	}
	f := topicFlags{Partitions: 2, Replication: -1, retentionFlags: retentionFlags{48 * time.Hour}}
	err := f.ensure(t.Context(), client, names, slog.New(slog.DiscardHandler))
	for _, want := range []string{names.Topic, names.DeadLetters, "retention.ms=172800000", "unclean.leader.election.enable=false", "--kafka-allow-risky-topics"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	f.AllowRisky = true
	if err := f.ensure(t.Context(), client, names, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	r := &checkReport{topics: names, retention: 48 * time.Hour}
	r.kafka(t.Context(), client, nil)
	if !r.failed {
		t.Error("check found the topics in order")
	}
}

// topicClient returns a client and the names of topics that are deleted at the test's end.
func topicClient(t *testing.T, addrs []string) (*kgo.Client, topicNames) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	name := strings.ToLower(rand.Text())
	names := topicNames{Topic: name + ".events", DeadLetters: name + ".dead"}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = kadm.NewClient(client).DeleteTopics(ctx, names.Topic, names.DeadLetters) // Left over, they hurt nobody.
	})
	return client, names
}
