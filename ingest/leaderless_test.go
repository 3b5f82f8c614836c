package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/wire"
)

// While a partition has no leader, the events of its sessions are answered 500 and all others 200, also in the same batch. When it has one
// again everything is written once.
func TestPartitionWithoutLeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.ProduceTimeout = 300 * time.Millisecond })
	const sessions = 20
	partition := func(session int) int {
		e := schema.Event{AccountID: f.account, SessionID: fmt.Sprintf("ses_%d", session)}
		return kgo.StickyKeyPartitioner(nil).ForTopic(wire.EventsTopic).Partition(&kgo.Record{Key: wire.AppendKey(nil, &e)}, 2)
	}
	body := func(session int) string { return fmt.Sprintf(`{"agent":"a","session_id":"ses_%d"}`, session) }
	fault := f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1})
	bodies := make([]string, sessions)
	for session := range sessions {
		bodies[session] = body(session)
		want := http.StatusOK
		if partition(session) == 0 {
			want = http.StatusInternalServerError
		}
		if got := f.post(t, "/v1/track", bodies[session]).status; got != want {
			t.Errorf("an event of partition %d is answered %d, want %d", partition(session), got, want)
		}
	}
	answer := f.post(t, "/v1/track/batch", "["+strings.Join(bodies, ",")+"]")
	if results := answer.body["results"].([]any); answer.status != http.StatusMultiStatus || len(results) != sessions {
		t.Errorf("the batch is answered %d with %d results", answer.status, len(results))
	} else {
		for session, result := range results {
			want := "200"
			if partition(session) == 0 {
				want = "500"
			}
			if got := fmt.Sprint(result.(map[string]any)["status"]); got != want {
				t.Errorf("in a batch an event of partition %d is answered %s, want %s", partition(session), got, want)
			}
		}
	}
	fault.Remove()
	want := map[string]int{}
	sum := 0
	for session := range sessions {
		attempts := 2
		for deadline := time.Now().Add(time.Minute); ; {
			attempts++
			if f.post(t, "/v1/track", body(session)).status == http.StatusOK {
				break
			}
			if partition(session) != 0 || time.Now().After(deadline) {
				t.Fatalf("with a leader again an event of partition %d is not recorded", partition(session))
			}
		}
		want[fmt.Sprintf("ses_%d", session)] = attempts
		sum += attempts
	}
	got := map[string]int{}
	for _, e := range f.events(t, sum) {
		got[e.SessionID]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written events by session (-want +got):\n%s", diff)
	}
}
