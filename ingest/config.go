package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/ingest/decode"
)

// Config bounds what ingest takes and how long it waits.
type Config struct {
	// MaxBodyBytes is the largest body of one event after decompression.
	MaxBodyBytes int64 `name:"max-body-bytes" default:"262144" help:"Largest body of one event, in bytes, after decompression."`
	// MaxBatchBytes is the same for a batch.
	MaxBatchBytes int64 `name:"max-batch-bytes" default:"4194304" help:"Largest body of a batch of events, in bytes, after decompression."`
	// ProduceTimeout is how long a request waits for Kafka before it is answered
	// 500, which means that nobody knows whether the event was recorded.
	ProduceTimeout time.Duration `name:"produce-timeout" default:"5s" help:"How long a request waits for Kafka to acknowledge before it is answered 500."`
	// MaxRequests is how many requests are handled at once. More are answered 500
	// before anything of them is looked at.
	MaxRequests int64 `name:"max-requests" default:"2048" help:"How many tracking requests are handled at once; more are answered 500 with Retry-After."`
	// MaxBufferedBytes bounds the memory of all requests and of the events that wait for
	// Kafka: the body, what is read of it, and its record. More are answered 500 before
	// their body is read.
	MaxBufferedBytes int64 `name:"max-buffered-bytes" default:"67108864" help:"Most memory, in bytes, of the requests and events that wait for Kafka at once; more are answered 500 with Retry-After."`
	// RecentKeys is how many idempotency keys are remembered, for a day at most,
	// to answer a retry without writing it again; 0 remembers none. A retry that
	// is not remembered is recorded once all the same.
	RecentKeys int `name:"recent-keys" default:"65536" help:"How many idempotency keys are remembered, for a day at most, to answer retries from memory; 0 for none. Each takes 75 bytes."`
}

// maxProduceTimeout is how long after its arrival a capped event is confirmed at most: budget.Times.ConfirmWithin.
const maxProduceTimeout = 10 * time.Second

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config {
	return Config{MaxBodyBytes: 256 << 10, MaxBatchBytes: 4 << 20, ProduceTimeout: 5 * time.Second, MaxRequests: 2048, MaxBufferedBytes: 64 << 20, RecentKeys: 64 << 10}
}

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	switch {
	case c.MaxBodyBytes < 1024:
		return errors.New("--max-body-bytes must be at least 1024")
	case c.MaxBatchBytes < c.MaxBodyBytes:
		return errors.New("--max-batch-bytes must be at least --max-body-bytes")
	case c.ProduceTimeout < 100*time.Millisecond || c.ProduceTimeout > maxProduceTimeout:
		return fmt.Errorf("--produce-timeout must be between 100ms and %v", maxProduceTimeout)
	case c.MaxRequests < 1:
		return errors.New("--max-requests must be at least 1")
	case c.MaxBufferedBytes < copies*c.MaxBatchBytes+decode.MaxBatchEvents*eventBytes+gzipBytes+requestBytes:
		return errors.New("--max-buffered-bytes must be at least three times --max-batch-bytes and 2 MiB more")
	case c.RecentKeys < 0:
		return errors.New("--recent-keys must not be negative")
	}
	return nil
}
