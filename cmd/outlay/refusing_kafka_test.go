package main

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// While a real Kafka refuses every write, readiness, the log and outlay check give the
// reason; the replica recovers by itself when Kafka takes events again.
func TestRealKafkaThatRefusesWrites(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	replica := in.startIngest(t)
	c := client{in.base, in.credentials.APIKey}
	track := func() int {
		t.Helper()
		return c.call(t, http.MethodPost, "/v1/track", `{"agent":"a"}`, &struct{}{})
	}
	if status := track(); status != http.StatusOK {
		t.Fatalf("status %d before", status)
	}
	// A real broker compares the size of each batch with this setting of the topic.
	in.setTopic(t, "max.message.bytes", "1")
	awaitFor(t, "a refused write", time.Minute, func() bool { return track() == http.StatusInternalServerError })
	const reason = "MESSAGE_TOO_LARGE"
	if status, text := readiness(t, replica.ops); status != http.StatusServiceUnavailable || !strings.Contains(text, "kafka does not take events") || !strings.Contains(text, reason) {
		t.Errorf("/readyz is %d %q", status, text)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{{[]string{"--process", replica.ops}, reason}, {in.kafka, "set max.message.bytes=1048588"}} {
		out, err := exec.CommandContext(t.Context(), path, append([]string{"check"}, c.flags...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "NOT OK") || !strings.Contains(string(out), c.want) {
			t.Errorf("outlay check %v: %v\n%s", c.flags, err, out)
		}
	}
	log := replica.text(t)
	if n := strings.Count(log, `level=WARN msg="events not recorded`); n == 0 || !strings.Contains(log, reason) {
		t.Errorf("%d warnings about refused events in\n%s", n, log)
	}
	in.setTopic(t, "max.message.bytes", "1048588")
	awaitFor(t, "a write that is taken", time.Minute, func() bool { return track() == http.StatusOK })
	replica.awaitReady(t, replica.ops)
	if out, err := exec.CommandContext(t.Context(), path, append([]string{"check"}, in.kafka...)...).CombinedOutput(); err != nil {
		t.Errorf("outlay check after it: %v\n%s", err, out)
	}
}

// While so few brokers of a real Kafka are left that it refuses what has to be in two of
// them, readiness, the log and outlay check say which; it ends when the broker is back.
func TestRealKafkaWithTooFewBrokers(t *testing.T) {
	t.Parallel()
	first, second := schematest.StartTwoKafkas(t)
	in := &installation{databaseURL: schematest.DatabaseOf(t, migrations.Plain).URL, brokers: first.Addrs(), replication: "2"}
	in.setUp(t)
	replica := in.startIngest(t)
	c := client{in.base, in.credentials.APIKey}
	track := func() int {
		t.Helper()
		return c.call(t, http.MethodPost, "/v1/track", `{"agent":"a"}`, &struct{}{})
	}
	if status := track(); status != http.StatusOK {
		t.Fatalf("status %d before", status)
	}
	second.Kill()
	const reason = "has 1 replicas in sync and takes writes with 2 (min.insync.replicas): bring brokers back"
	awaitFor(t, "readiness to name the replicas", time.Minute, func() bool {
		status, text := readiness(t, replica.ops)
		return status == http.StatusServiceUnavailable && strings.Contains(text, reason)
	})
	if status := track(); status != http.StatusInternalServerError {
		t.Errorf("status %d with one broker of two", status)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, append([]string{"check"}, in.kafka...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NOT OK  writes") || !strings.Contains(string(out), reason) {
		t.Errorf("outlay check: %v\n%s", err, out)
	}
	awaitFor(t, "the log to name the replicas", time.Minute, func() bool { return strings.Contains(replica.text(t), reason) })
	if err := second.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitFor(t, "a write that is taken", time.Minute, func() bool { return track() == http.StatusOK })
	replica.awaitReady(t, replica.ops)
}

// setTopic changes a setting of the events topic.
func (in *installation) setTopic(t *testing.T, key, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(in.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	changed, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, in.group)
	if err != nil || changed[0].Err != nil {
		t.Fatal(err, changed)
	}
}
