package ingest

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A replica whose events Kafka refuses is not ready, logs it, and is ready again with
// the first event that Kafka takes, or when it is time to try again.
func TestRefusedWritesAreNotReady(t *testing.T) {
	t.Parallel()
	for _, refusal := range []*kerr.Error{kerr.UnknownServerError, kerr.KafkaStorageError, kerr.NotEnoughReplicas, kerr.PolicyViolation} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			var later atomic.Int64 // nanoseconds
			f := newFixtureWith(t, func(c *Config, d *Deps) {
				c.ProduceTimeout = 300 * time.Millisecond
				d.Log = slog.New(slog.NewTextHandler(&log, nil))
				d.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			})
			if err := f.ingest.Ready(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			var refusing atomic.Bool
			refusing.Store(true)
			f.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
				f.cluster.KeepControl()
				if !refusing.Load() {
					return nil, nil, false
				}
				return refuseProduce(r.(*kmsg.ProduceRequest), refusal), nil, true
			})
			for range 3 {
				if r := f.post(t, "/v1/track", `{"agent":"a"}`); r.status != http.StatusInternalServerError {
					t.Fatalf("status %d, want 500", r.status)
				}
			}
			if err := f.ingest.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "kafka does not take events") {
				t.Errorf("while refused: %v", err)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings, want 1:\n%s", n, log.String())
			}
			later.Store(int64(15 * time.Second)) // How long a failure counts.
			if err := f.ingest.Ready(t.Context()); err != nil {
				t.Errorf("when nothing was tried for long: %v", err)
			}
			f.post(t, "/v1/track", `{"agent":"a"}`)
			if err := f.ingest.Ready(t.Context()); err == nil {
				t.Error("ready after another refusal")
			}
			refusing.Store(false)
			if r := f.post(t, "/v1/track", `{"agent":"b"}`); r.status != http.StatusOK {
				// What was refused before may be tried again for a while, and is in its way.
				for deadline := time.Now().Add(20 * time.Second); r.status != http.StatusOK && time.Now().Before(deadline); {
					r = f.post(t, "/v1/track", `{"agent":"b"}`)
				}
			}
			if err := f.ingest.Ready(t.Context()); err != nil {
				t.Errorf("after an event was taken: %v", err)
			}
		})
	}
}

// refuseProduce is the response of a broker that refuses everything.
func refuseProduce(r *kmsg.ProduceRequest, refusal *kerr.Error) kmsg.Response {
	response := r.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range r.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, refusal.Code
			t.Partitions = append(t.Partitions, p)
		}
		response.Topics = append(response.Topics, t)
	}
	return response
}

// lockedBuffer may be written to by several goroutines.
type lockedBuffer struct {
	text atomic.Pointer[bytes.Buffer]
}

// Write appends p.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	for {
		old := b.text.Load()
		next := new(bytes.Buffer)
		if old != nil {
			_, _ = next.Write(old.Bytes())
		}
		_, _ = next.Write(p)
		if b.text.CompareAndSwap(old, next) {
			return len(p), nil
		}
	}
}

func (b *lockedBuffer) String() string {
	if text := b.text.Load(); text != nil {
		return text.String()
	}
	return ""
}
