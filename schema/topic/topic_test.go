package topic

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outlayhq/outlay/schema/schematest"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition takes writes with a leader and enough replicas in sync, of those it has.
func TestPartitionIsWritable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		partition kadm.PartitionDetail
		needed    int
		want      string
	}{
		"good":                          {kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}, 2, ""},
		"one of one":                    {kadm.PartitionDetail{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, 2, ""},
		"another replica is offline":    {kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}, Err: kerr.ReplicaNotAvailable}, 1, ""},
		"too few in sync":               {kadm.PartitionDetail{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}}, 2, "has 1 replicas in sync and takes writes with 2"},
		"no leader":                     {kadm.PartitionDetail{Leader: -1, Replicas: []int32{1}, Err: kerr.LeaderNotAvailable}, 1, "has no leader"},
		"the disk of its leader failed": {kadm.PartitionDetail{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, Err: kerr.KafkaStorageError}, 1, "KAFKA_STORAGE_ERROR"},
	} {
		got := ""
		if err := writable(c.partition, c.needed); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWritableAsksKafka(t *testing.T) {
	t.Parallel()
	cluster := schematest.FakeKafka(t, kfake.SeedTopics(3, "there"))
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n, failures, err := Writable(t.Context(), kadm.NewClient(client), "there"); n != 3 || len(failures) > 0 || err != nil {
		t.Errorf("%d partitions, %v, %v", n, failures, err)
	}
	if _, _, err := Writable(t.Context(), kadm.NewClient(client), "missing"); err == nil {
		t.Error("no error about a topic that does not exist")
	}
}
