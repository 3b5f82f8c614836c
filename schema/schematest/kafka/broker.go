package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/schema/schematest/port"
)

// Broker is a Kafka that was started. It is not safe for concurrent use.
type Broker struct {
	libs Libs
	dir  string
	// id is 1 for the first broker of a cluster, which is its controller too, and 2 for one that joined it.
	id      int
	cluster string
	// Reserved for as long as the broker may be started again.
	port, controller *port.Reservation
	process          *child.Process
}

// Start formats a new broker's storage in dir, which must be empty or missing, on free ports, and returns when it serves.
func Start(ctx context.Context, libs Libs, dir string) (b *Broker, err error) {
	b = &Broker{libs: libs, dir: dir, id: 1, cluster: clusterID()}
	if b.port, err = port.Reserve(); err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	if b.controller, err = port.Reserve(); err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	if err := b.format(ctx); err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	if err := b.Restart(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Join starts a second broker in the cluster of b, with its storage in dir, and returns when it serves. Only the first broker has
// the metadata: the second may be killed and restarted while b serves.
func (b *Broker) Join(ctx context.Context, dir string) (second *Broker, err error) {
	second = &Broker{libs: b.libs, dir: dir, id: 2, cluster: b.cluster, controller: b.controller}
	if second.port, err = port.Reserve(); err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	if err := second.format(ctx); err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	if err := second.Restart(ctx); err != nil {
		return nil, err
	}
	return second, nil
}

// properties are the settings of a broker. Times are the broker's own, as in production; waits that protect a cluster of many
// are off; short sessions are allowed, for tests of clients that die.
const properties = `process.roles=%[4]s
node.id=%[5]d
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=%[6]s
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
log.dirs=%[3]s
auto.create.topics.enable=false
log.message.timestamp.type=LogAppendTime
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
group.consumer.min.session.timeout.ms=500
group.consumer.min.heartbeat.interval.ms=100
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
`

// format writes the settings and makes the storage.
func (b *Broker) format(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	roles, listeners := "broker", "PLAINTEXT://"+b.port.Address()
	if b.id == 1 {
		roles, listeners = "broker,controller", listeners+",CONTROLLER://"+b.controller.Address()
	}
	text := fmt.Sprintf(properties, b.port.Port(), b.controller.Port(), filepath.Join(b.dir, "data"), roles, b.id, listeners)
	if err := os.WriteFile(b.settings(), []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "java", b.java("kafka.tools.StorageTool", "format", "--cluster-id="+b.cluster, "--config="+b.settings())...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format its storage: %w: %s", err, out)
	}
	return nil
}

func (b *Broker) settings() string { return filepath.Join(b.dir, "server.properties") }

// clusterID is a random UUID in the form that Kafka writes them, which may start with a dash.
func clusterID() string {
	var id [16]byte
	rand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// java returns the arguments of a Java that starts fast and stays small: a test broker never lives long enough to earn back
// what the second compiler costs.
func (b *Broker) java(args ...string) []string {
	return append([]string{
		"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", filepath.Join(string(b.libs), "*"),
	}, args...)
}

// Restart starts a broker that was stopped or killed, on the same addresses and with all it stored, and returns when it serves.
func (b *Broker) Restart(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(b.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start kafka: %w", err)
	}
	defer log.Close() //nolint:errcheck // Only the broker writes to it.
	cmd := exec.Command("java", b.java("kafka.Kafka", b.settings())...)
	cmd.Dir = b.dir
	cmd.Stdout, cmd.Stderr = log, log
	if b.process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return fmt.Errorf("start kafka: %w", err)
	}
	if err := b.awaitReady(ctx); err != nil {
		b.Kill()
		return fmt.Errorf("start kafka: %w: %s", err, b.lastLog())
	}
	return nil
}

// awaitReady waits until the broker lists itself among those that take part: topics can be made from then on.
func (b *Broker) awaitReady(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RetryTimeout(0))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		meta, err := kadm.NewClient(client).BrokerMetadata(ctx)
		if err == nil && slices.Contains(meta.Brokers.NodeIDs(), int32(b.id)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-b.process.Done():
			return errors.New("it ended during its start")
		case <-ctx.Done():
			return fmt.Errorf("wait for it: %w", ctx.Err())
		}
	}
}

// lastLog returns the last 2 KB of the broker's log.
func (b *Broker) lastLog() string {
	text, err := os.ReadFile(filepath.Join(b.dir, "broker.log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-2048):]))
}

// Addrs are the broker's addresses for a client: one.
func (b *Broker) Addrs() []string {
	return []string{b.port.Address()}
}

// PID is the process id of the running, or last, broker.
func (b *Broker) PID() int { return b.process.PID() }

// Kill ends the broker without a word, as a crash would. It returns when the process has ended, and may be called again.
func (b *Broker) Kill() {
	_ = b.process.Signal(syscall.SIGKILL) // Only a process that has ended cannot be killed.
	<-b.process.Done()
}

// Stop lets the broker shut down in order. When ctx ends first, it is killed.
func (b *Broker) Stop(ctx context.Context) error {
	if err := b.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-b.process.Done():
		return nil
	case <-ctx.Done():
		b.Kill()
		return fmt.Errorf("stop kafka: %w", ctx.Err())
	}
}

// Version asks the brokers at addrs what they are.
func Version(ctx context.Context, addrs []string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		return "", err
	}
	defer client.Close()
	all, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	for _, v := range all.Sorted() {
		if v.Err == nil {
			return v.VersionGuess(), nil
		}
	}
	return "", errors.New("ask for the version: no broker answered")
}
