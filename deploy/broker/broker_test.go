package broker

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records that come while a request is under way go together with the next one.
func TestWhatWaitsGoesTogether(t *testing.T) {
	t.Parallel()
	const records = 20
	b, err := Start(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses()...), kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0), ClientOption())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	// Connected, and with an answer, it may have as many under way as it ever has.
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("first")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	under, release := make(chan bool), make(chan bool)
	b.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if requests.Add(1) == 1 {
			close(under)
			b.cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	done := make(chan error, records)
	for i := range records {
		client.Produce(t.Context(), kgo.StringRecord(strconv.Itoa(i)), func(_ *kgo.Record, err error) { done <- err })
		if i == 0 {
			<-under
		}
		time.Sleep(time.Millisecond) // A client that may sends each in a request of its own.
	}
	close(release)
	for range records {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2: one, and one with all that waited", n)
	}
}
