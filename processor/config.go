package processor

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/budget"
)

// Config sets how the processor reads from Kafka.
type Config struct {
	// Group is the consumer group that shares the partitions out.
	Group string `name:"group" default:"outlay-processor" help:"Kafka consumer group that the processors share."`
	// BatchRecords is the most records of one poll and so of one transaction.
	BatchRecords int `name:"batch-records" default:"10000" help:"Most records that are stored in one transaction."`
	// BatchWait is how long the broker waits for more records when fewer are there
	// than fill a batch, so that a few events a second are not a transaction each. 0
	// takes what is there.
	BatchWait time.Duration `name:"batch-wait" default:"250ms" help:"How long to wait for more events while fewer are there than fill a transaction; 0 stores what is there at once."`
	// FetchMaxBytes bounds what one broker sends at once, and with it memory.
	FetchMaxBytes int32 `name:"fetch-max-bytes" default:"8388608" help:"Most bytes that are fetched from one broker at once."`
	// SessionTimeout is how long Kafka waits for a silent processor before its
	// partitions go to another.
	SessionTimeout time.Duration `name:"session-timeout" default:"10s" help:"How long a silent processor keeps its partitions."`
	// Times are the same for all processes of an installation.
	Times budget.Times `kong:"-"`
}

// GCPercent is the garbage collector's setting for a processor process: a batch is
// garbage as soon as it is stored, and collecting it less often saves CPU time.
const GCPercent = 400

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config {
	return Config{
		Group: "outlay-processor", BatchRecords: 10_000, BatchWait: 250 * time.Millisecond,
		FetchMaxBytes: 8 << 20, SessionTimeout: 10 * time.Second,
	}
}

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	switch {
	case c.Group == "":
		return errors.New("--group must not be empty")
	case c.BatchRecords < 1 || c.BatchRecords > 100_000:
		return errors.New("--batch-records must be between 1 and 100000")
	case c.BatchWait < 0 || c.BatchWait > idleWait:
		return fmt.Errorf("--batch-wait must be between 0s and %v", idleWait)
	case c.FetchMaxBytes < 1<<20:
		return errors.New("--fetch-max-bytes must be at least 1048576")
	case c.SessionTimeout < time.Second:
		return errors.New("--session-timeout must be at least 1s")
	}
	return nil
}

const (
	// idleWait is how long a request for records waits at the broker for the first one.
	idleWait = time.Second
	// smallRecord is the size in bytes of a small record: a batch that is full has at
	// least so much for each.
	smallRecord = 100
)

// consumerOptions are the franz-go options of the group.
func (c Config) consumerOptions(topic string) []kgo.Opt {
	// Without a wait the broker answers as soon as it has one record.
	minBytes, maxWait := int32(1), idleWait
	if c.BatchWait > 0 {
		// A partition counts up to FetchMaxPartitionBytes.
		minBytes, maxWait = min(int32(c.BatchRecords*smallRecord), c.FetchMaxBytes/2), c.BatchWait
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(topic),
		// Where to start comes from the database. If Kafka has deleted what stands
		// there, that is an alarm: any automatic reset would skip events silently.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(c.SessionTimeout / 5),
		kgo.RebalanceTimeout(2 * c.SessionTimeout),
		kgo.FetchMaxBytes(c.FetchMaxBytes),
		kgo.FetchMaxPartitionBytes(c.FetchMaxBytes / 2),
		kgo.FetchMinBytes(minBytes),
		kgo.FetchMaxWait(maxWait),
	}
}
