// Package broker is the Kafka broker inside `outlay up`: kfake with its data on
// disk and every write synced, listening on the loopback only. It is one node
// without replication, made for trying Outlay out and for small installations;
// more than that calls for a real Kafka.
package broker

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Broker is a running broker.
type Broker struct{ cluster *kfake.Cluster }

// Start starts a broker that keeps its data in dir, which is made if needed. What
// was acknowledged is there at the next start, also after a crash.
func Start(dir string) (*Broker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(filepath.Clean(dir)),
		kfake.SyncWrites(),
	)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return &Broker{cluster}, nil
}

// Addresses are where clients on this machine reach the broker.
func (b *Broker) Addresses() []string { return b.cluster.ListenAddrs() }

// oneRequestVersion is the newest version of the produce request with which an idempotent
// producer has one request under way instead of five, as with Kafka 0.11.
const oneRequestVersion = 3

// ClientOption is for every client of the broker. The broker handles one request after the
// other and syncs each, so five small ones take five times as long as one with the same
// events: a producer sends what waits when the request before is answered.
func ClientOption() kgo.Opt {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), oneRequestVersion)
	return kgo.MaxVersions(versions)
}

// Close writes out what is open and stops the broker.
func (b *Broker) Close() { b.cluster.Close() }
