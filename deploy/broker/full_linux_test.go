package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/deploy/broker"
	"github.com/outlayhq/outlay/schema/schematest/disk"
)

const topic = "events"

// A broker whose disk is full acknowledges nothing, reports why, and works again when
// there is room. What it acknowledged before and after is all there at its next start,
// once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	mounted := t.TempDir()
	disk.Mount(t, mounted, "16m")
	dir := filepath.Join(mounted, "kafka")
	var logged bytes.Buffer
	b, err := broker.Start(dir, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	p := newProducer(t, b)
	var want []string
	produce := func(n int) (failed int) {
		for range n {
			value := fmt.Sprintf("%d %s", p.sent, strings.Repeat("x", p.sent*37%900))
			if p.produce(t, value) == nil {
				want = append(want, value)
			} else {
				failed++
			}
		}
		return failed
	}
	if failed := produce(20); failed > 0 {
		t.Fatalf("%d events failed with room on the disk", failed)
	}
	if err := b.Ready(); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		filler := disk.Fill(t, mounted)
		if failed := produce(200); failed == 0 {
			t.Error("every event was acknowledged without room on the disk")
		}
		if err := b.Ready(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
			t.Errorf("without room: %v, want an error that names %s", err, dir)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if err := b.Ready(); err != nil {
			t.Errorf("with room again: %v", err)
		}
		if failed := produce(20); failed > 0 {
			t.Errorf("%d events failed with room again", failed)
		}
	}
	b.Close()
	if n := strings.Count(logged.String(), "no space left on device"); n == 0 || n > 8 {
		t.Errorf("the full disk was logged %d times, want 1 to 8:\n%s", n, logged.String())
	}
	if b, err = broker.Start(dir, nil); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got := map[string]int{}
	for _, value := range consume(t, b) {
		got[value]++
	}
	for _, value := range want {
		if got[value] != 1 {
			t.Errorf("event %.5q is there %d times, want once", value, got[value])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
}

type producer struct {
	client *kgo.Client
	sent   int
}

func newProducer(t *testing.T, b *broker.Broker) *producer {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	return &producer{client: client}
}

func (p *producer) produce(t *testing.T, value string) error {
	t.Helper()
	p.sent++
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
}

// consume returns everything that is in the topic.
func consume(t *testing.T, b *broker.Broker) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := int64(0); next < end.Offset; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("offset %d of %d: %v", next, end.Offset, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			values = append(values, string(r.Value))
			next = r.Offset + 1
		})
	}
	return values
}
