package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/schematest"
)

// What ingest may have resident while Kafka stands still, and a minute later.
const stalledMiB, recoveredMiB = 256, 96

// stall is how long Kafka stands still: by default every waiting request times out twice.
func stall() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("OUTLAY_E2E_STALL")); err == nil {
		return d
	}
	return 12 * time.Second
}

// While a real Kafka stands still the memory of ingest stays bounded, whatever clients
// send, comes back afterwards, and nothing that was acknowledged is lost.
func TestMemoryWhileKafkaStandsStill(t *testing.T) {
	large := `{"agent":"a","metadata":{"k":["` + strings.Repeat(strings.Repeat("x", 3900)+`","`, 15) + `"]}}`
	var inflating bytes.Buffer
	w := gzip.NewWriter(&inflating)
	_, _ = w.Write([]byte("[" + strings.Repeat(large+",", 64) + large + "]"))
	_ = w.Close()
	for _, load := range []struct {
		name, path, encoding string
		body                 []byte
		events               int64
		clients              int
	}{
		{"large events", "/v1/track", "identity", []byte(large), 1, 512},
		{"inflating batches", "/v1/track/batch", "gzip", inflating.Bytes(), 65, 64},
	} {
		t.Run(load.name, func(t *testing.T) {
			in := newInstallation(t)
			broker := schematest.StartKafka(t)
			topic := "stall"
			in.kafka = []string{"--kafka-brokers", broker.Addrs()[0], "--kafka-topic", topic, "--kafka-dead-letter-topic", topic + "-dead"}
			in.outlay(t, append([]string{"migrate", "--database-url", in.databaseURL, "--kafka-partitions", testPartitions, "--kafka-replication", "1"}, in.kafka...)...)
			ingest := in.startIngest(t)
			target := (*in.ingests.Load())[0].String() + load.path

			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: load.clients}}
			defer client.CloseIdleConnections()
			var acknowledged, unknown, refused atomic.Int64
			send := func() {
				req, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(load.body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+in.credentials.APIKey)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Content-Encoding", load.encoding)
				resp, err := client.Do(req)
				if err != nil {
					unknown.Add(load.events)
					return
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				switch {
				case err == nil && resp.StatusCode == http.StatusOK:
					acknowledged.Add(load.events)
				case err == nil && resp.StatusCode == http.StatusInternalServerError && resp.Header.Get("Retry-After") != "",
					err == nil && resp.StatusCode == http.StatusMultiStatus:
					unknown.Add(load.events)
					refused.Add(1)
				default:
					t.Errorf("status %d: %.200s, %v", resp.StatusCode, answer, err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var clients sync.WaitGroup
			for range load.clients {
				clients.Go(func() {
					for ctx.Err() == nil {
						send()
					}
				})
			}
			for acknowledged.Load() == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			sendSignal(t, broker.PID(), syscall.SIGSTOP)
			time.Sleep(stall())
			sendSignal(t, broker.PID(), syscall.SIGCONT)
			stop()
			clients.Wait()
			peak := ingest.memory(t, "VmHWM")
			t.Logf("%d acknowledged, %d unknown, %d requests refused, at most %d MiB", acknowledged.Load(), unknown.Load(), refused.Load(), peak)
			if refused.Load() == 0 {
				t.Error("nothing was refused: the test shows nothing")
			}
			if peak > stalledMiB {
				t.Errorf("%d MiB were resident, want at most %d", peak, stalledMiB)
			}
			resumed := time.Now()
			resident := ingest.memory(t, "VmRSS")
			for deadline := resumed.Add(time.Minute); resident > recoveredMiB && time.Now().Before(deadline); resident = ingest.memory(t, "VmRSS") {
				time.Sleep(time.Second)
			}
			t.Logf("%d MiB %v later", resident, time.Since(resumed).Round(time.Second))
			if resident > recoveredMiB {
				t.Errorf("%d MiB are resident a minute later, want at most %d", resident, recoveredMiB)
			}
			ingest.stop(t)
			if stored := recordsOf(t, broker.Addrs(), topic); stored < acknowledged.Load() || stored > acknowledged.Load()+unknown.Load() {
				t.Errorf("%d records, want %d to %d", stored, acknowledged.Load(), acknowledged.Load()+unknown.Load())
			}
		})
	}
}

func sendSignal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// memory returns a figure of the process's memory, in MiB.
func (r *running) memory(t *testing.T, name string) (mib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kib >> 10
}

// recordsOf counts the records of a topic.
func recordsOf(t *testing.T, addrs []string, topic string) (n int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}
