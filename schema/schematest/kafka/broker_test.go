package kafka_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/schematest/kafka"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// A broker that is killed or stopped comes back on the same address with what it acknowledged, stamped with its own time.
func TestBrokerComesBackWithItsRecords(t *testing.T) {
	t.Parallel()
	libs, err := kafka.Find()
	if err != nil {
		need.Missing(t, err)
	}
	began := time.Now()
	b, err := kafka.Start(t.Context(), libs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(began))
	defer b.Kill()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func(value string) {
		t.Helper()
		record := &kgo.Record{Topic: "t", Value: []byte(value), Timestamp: time.Unix(0, 0)}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		began := time.Now()
		if err := b.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("restarted in %v", time.Since(began))
	}

	produce("before the kill")
	b.Kill()
	restart()
	produce("after the kill")
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	restart()
	if v, err := kafka.Version(t.Context(), b.Addrs()); err != nil {
		t.Error(err)
	} else {
		t.Logf("version %s", v)
	}

	var got []string
	for len(got) < 2 && t.Context().Err() == nil {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			got = append(got, string(r.Value))
			if age := time.Since(r.Timestamp); age > time.Hour {
				t.Errorf("record is stamped %v, want the broker's time", r.Timestamp)
			}
		})
	}
	if diff := cmp.Diff([]string{"before the kill", "after the kill"}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
