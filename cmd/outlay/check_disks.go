package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outlayhq/outlay/schema/topic"
)

// minDiskBytes is the least free space of a broker's disk.
const minDiskBytes = 256 << 20

// writes notes whether the brokers take writes now: partitions that cannot be written
// to, a topic that refuses large batches, and disks that have failed or are full.
func (r *checkReport) writes(ctx context.Context, admin *kadm.Client) {
	partitions, failures, err := topic.Writable(ctx, admin, r.topics.Topic)
	r.note("writes", fmt.Sprintf("%d partitions take events", partitions-len(failures)), errors.Join(append(failures, err, topic.TakesBatches(ctx, admin, r.topics.Topic))...))
	// A user that may not describe the cluster can still run the other checks.
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		r.note("brokers' disks", "are not known: "+err.Error(), nil)
		return
	}
	var failed error
	dirs.Each(func(d kadm.DescribedLogDir) {
		failed = errors.Join(failed, diskError(d))
	})
	r.note("brokers' disks", "have free space, as far as the brokers report it", failed)
}

// diskError returns what is wrong with a broker's directory. Brokers before Kafka 3.3 do not report sizes; they pass.
func diskError(d kadm.DescribedLogDir) error {
	switch {
	case d.Err != nil:
		return fmt.Errorf("%s of broker %d cannot be used: %w", d.Dir, d.Broker, d.Err)
	case d.UsableBytes >= 0 && d.TotalBytes > 0 && d.UsableBytes < minDiskBytes:
		return fmt.Errorf("%s of broker %d has %d MiB left: free some space, or it will refuse events", d.Dir, d.Broker, d.UsableBytes>>20)
	}
	return nil
}
