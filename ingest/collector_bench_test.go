package ingest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/ingest/otlp"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/wire"
)

// collectorVar is the path of an OpenTelemetry Collector to compare with.
const collectorVar = "OUTLAY_OTELCOL"

// howToCollector is what a run without a Collector says.
const howToCollector = collectorVar + ` is not set. It is the full path of an OpenTelemetry Collector with the OTLP receiver and the
Kafka exporter. The Collector Builder (go.opentelemetry.io/collector/cmd/builder) makes one from a list of modules:
go.opentelemetry.io/collector/receiver/otlpreceiver, github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter
and the env and file providers of go.opentelemetry.io/collector/confmap/provider, in versions that belong together: v0.155.0, and v1.61.0
of the providers.`

// collectorConfig lets the Collector do as little as it can and still answer only
// once the broker has acknowledged: without its queue an export waits for the
// write, and without a linger the write waits for nothing. Its metrics are on, as
// they are by default and as Outlay's are.
const collectorConfig = `
receivers:
  otlp: {protocols: {http: {endpoint: %q}}}
exporters:
  kafka:
    brokers: [%q]
    traces: {topic: %s, encoding: otlp_proto}
    producer: {required_acks: -1, compression: none, linger: 0s}
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [kafka]}}
  telemetry:
    logs: {level: error}
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}
`

// startCollector returns the Collector once it takes spans.
func startCollector(b *testing.B, broker *server) *server {
	b.Helper()
	address := freeAddress(b)
	_, metricsPort, err := net.SplitHostPort(freeAddress(b))
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(b.TempDir(), "collector.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, collectorConfig, address, broker.address, wire.EventsTopic, metricsPort), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Getenv(collectorVar), "--config", config)
	cmd.Stderr = os.Stderr
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = p.Signal(syscall.SIGKILL)
		<-p.Done()
	})
	awaitCollector(b, p, address)
	return &server{p, address}
}

// freeAddress is an address that nobody listens on. The Collector does not tell
// which one it got when it may choose.
func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func awaitCollector(b *testing.B, p *child.Process, address string) {
	b.Helper()
	for {
		resp, err := http.Post("http://"+address+"/v1/traces", otlp.Protobuf.ContentType(), http.NoBody)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return
		}
		select {
		case <-p.Done():
			b.Fatal("the Collector ended: ", p.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// BenchmarkCollector compares Outlay with an OpenTelemetry Collector that writes
// spans to Kafka and waits for the acknowledgement. Each has a broker of its own,
// and they take turns. The events are the same: as spans, and for Outlay also as
// its own JSON.
func BenchmarkCollector(b *testing.B) {
	if os.Getenv(collectorVar) == "" {
		fmt.Fprintln(os.Stderr, howToCollector) // A benchmark that is skipped says nothing.
		b.SkipNow()
	}
	secret := account.NewSecret()
	brokers := [2]*server{}
	for i := range brokers {
		brokers[i] = startRole(b, "broker", dirVar+"="+b.TempDir())
	}
	collector := &contender{server: startCollector(b, brokers[0]), broker: brokers[0]}
	outlay := &contender{server: startRole(b, "ingest", brokerVar+"="+brokers[1].address, secretVar+"="+secret), broker: brokers[1], splits: true}
	var ids uint32
	for _, load := range []struct{ events, connections int }{{1, 64}, {1, 256}, {100, 16}, {100, 64}} {
		turns := []struct {
			name string
			*contender
			*requestSource
		}{
			{"collector/protobuf", collector, spanRequests(b, &ids, otlp.Protobuf, load.events)},
			{"outlay/track", outlay, trackRequests(load.events)},
			{"outlay/protobuf", outlay, spanRequests(b, &ids, otlp.Protobuf, load.events)},
			{"collector/json", collector, spanRequests(b, &ids, otlp.JSON, load.events)},
			{"outlay/json", outlay, spanRequests(b, &ids, otlp.JSON, load.events)},
		}
		for round := range 3 {
			for _, turn := range turns {
				b.Run(fmt.Sprintf("events=%d/connections=%d/round=%d/%s", load.events, load.connections, round, turn.name), func(b *testing.B) {
					quiet(b, func() { turn.run(b, turn.requestSource, secret, load.connections) })
				})
			}
		}
	}
	for _, c := range []*contender{collector, outlay} {
		c.check(b)
	}
}

// contender is a server that takes part, with its broker.
type contender struct {
	server, broker *server
	// splits says that each event becomes a record, and not each request.
	splits bool
	// sent is how many records the broker must have.
	sent int64
}

// run is benchRequests with requests that are never sent twice.
func (c *contender) run(b *testing.B, source *requestSource, secret string, connections int) {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", source.path, c.server.address, secret)
	warm := max(connections, b.N/10)
	requests := source.take(head, warm+b.N)
	hammer(b, c.server.address, requests[:warm], connections, warm)
	c.server.measure(b, b.N*source.events, func() { hammer(b, c.server.address, requests[warm:], connections, b.N) })
	c.sent += int64(len(requests))
	if c.splits {
		c.sent += int64(len(requests) * (source.events - 1))
	}
}

// check fails unless the broker has all that was answered 200: a server that
// writes less is no comparison.
func (c *contender) check(b *testing.B) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.address))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(b.Context(), wire.EventsTopic)
	if err != nil {
		b.Fatal(err)
	}
	var written int64
	ends.Each(func(o kadm.ListedOffset) { written += o.Offset })
	if written != c.sent {
		b.Errorf("the broker of %s has %d records, want %d", c.server.address, written, c.sent)
	}
}
