package schematest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/schematest/kafka"
	"github.com/outlayhq/outlay/schema/schematest/local"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// sharedKafka is the broker that the tests of this process share.
var sharedKafka = sync.OnceValues(func() ([]string, error) {
	if addrs := os.Getenv(local.KafkaVar); addrs != "" {
		return strings.Split(addrs, ","), nil
	}
	libs, err := kafka.Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := local.Kafka(ctx, libs) // It ends with this process.
	if err != nil {
		return nil, err
	}
	return b.Addrs(), nil
})

// Kafka returns the addresses of a real Apache Kafka, for use with topics and groups of the test's own.
func Kafka(t testing.TB) []string {
	t.Helper()
	addrs, err := sharedKafka()
	if errors.Is(err, kafka.ErrNotInstalled) {
		need.Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// StartKafka starts a real Apache Kafka for one test, which may stop, kill, pause and restart it.
func StartKafka(t testing.TB) *kafka.Broker {
	t.Helper()
	libs, err := kafka.Find()
	if err != nil {
		need.Missing(t, err)
	}
	b, err := kafka.Start(t.Context(), libs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}

// StartTwoKafkas is StartKafka for a cluster of two brokers. The first has to stay, or nobody has the metadata.
func StartTwoKafkas(t testing.TB) (first, second *kafka.Broker) {
	t.Helper()
	first = StartKafka(t)
	second, err := first.Join(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Kill)
	return first, second
}

// FakeKafka starts a kfake cluster of one broker, unless the options say otherwise, for one test.
func FakeKafka(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Topic makes a topic with a name of its own at the brokers, real or fake, and returns the name. It is deleted with the test.
func Topic(t testing.TB, addrs []string, partitions int32) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client)
	name := fmt.Sprintf("%.60s_%.10s", word(t.Name()), strings.ToLower(rand.Text()))
	if _, err := admin.CreateTopic(t.Context(), partitions, 1, nil, name); err != nil {
		client.Close()
		t.Fatalf("create topic %s: %v", name, err)
	}
	t.Cleanup(func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = admin.DeleteTopics(ctx, name) // The test may have ended the broker.
	})
	return name
}
