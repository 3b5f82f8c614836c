// Package broker is the Kafka broker inside `outlay up`: kfake with its data on
// disk and every write synced, listening on the loopback only. It is one node
// without replication, made for trying Outlay out and for small installations;
// more than that calls for a real Kafka.
package broker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	dir     string
}

// Start starts a broker that keeps its data in dir, which is made if needed. What
// was acknowledged is there at the next start, also after a crash. log hears of writes
// that fail; nil is no log.
func Start(dir string, log *slog.Logger) (*Broker, error) {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(dir),
		// Without it a crash of the machine could lose what was acknowledged.
		kfake.SyncWrites(),
		kfake.WithLogger(&logger{log: cmp.Or(log, slog.New(slog.DiscardHandler))}),
	)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker in %s: %w", dir, err)
	}
	return &Broker{cluster, dir}, nil
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
	// Only the produce request is held back; all others have the versions of the library.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), oneRequestVersion)
	return kgo.MaxVersions(versions)
}

// probeBytes is the free space that there must be for more events: a batch of the largest
// size that clients send fits.
const probeBytes = 1 << 20

// Ready returns nil when the broker can write to its directory, and what keeps it from
// it otherwise, such as a full disk.
func (b *Broker) Ready() error {
	// A write is tried, because free space does not show quotas and read-only file systems.
	path := filepath.Join(b.dir, "probe")
	err := os.WriteFile(path, make([]byte, probeBytes), 0o600)
	if removed := os.Remove(path); err == nil {
		err = removed
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk of the embedded broker is full, so that no event is recorded: free some space for %s (%w)", b.dir, err)
	}
	if err != nil {
		return fmt.Errorf("the embedded broker cannot write to %s, so that no event is recorded: %w", b.dir, err)
	}
	return nil
}

// Close writes out what is open and stops the broker.
func (b *Broker) Close() { b.cluster.Close() }
