package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/topic"
)

// Deps are what a Processor works with; the caller owns them.
type Deps struct {
	// Pool needs at least four connections.
	Pool *pgxpool.Pool
	// Owner is signed in as the owner of the tables: TimescaleDB refreshes aggregates and drops chunks for nobody else. Only
	// upkeep uses it. Defaults to Pool.
	Owner *pgxpool.Pool
	// Kafka holds brokers and credentials. The processor makes its own clients.
	Kafka []kgo.Opt
	// Topic is read; records that cannot be stored go to DeadLetters.
	Topic, DeadLetters string

	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Processor moves events from Kafka to the database.
type Processor struct {
	// cfg was validated by the caller.
	cfg   Config
	pool  *pgxpool.Pool
	kafka []kgo.Opt
	topic string
	dead  string
	// positions is where each partition stands in the database, which decides what is stored.
	positions *timescale.Positions
	sink      *timescale.Sink
	// owned is where this processor believes to stand, for metrics.
	owned   *assignment
	upkeep  *upkeep.Upkeep
	metrics *metrics
	times   budget.Times
	log     *slog.Logger
	// now is the clock of lag and completeness. What is stored has the times of the events.
	now func() time.Time

	// producer writes dead letters; nil before Run. It outlives the memberships of the group, so readiness asks with it.
	producer atomic.Pointer[kgo.Client]
	// consumer is the client of the present membership; nil before the first.
	consumer atomic.Pointer[kgo.Client]

	// failing holds why the last save did not succeed; empty when it did.
	failing atomic.Pointer[string]
}

// New returns a Processor. Its configuration was validated.
func New(cfg Config, d Deps) *Processor {
	return &Processor{
		cfg: cfg, pool: d.Pool, kafka: d.Kafka, topic: d.Topic, dead: d.DeadLetters, log: d.Log, now: d.Now,
		positions: timescale.NewPositions(d.Pool, d.Topic),
		sink:      timescale.New(d.Pool, d.Topic),
		owned:     newAssignment(d.Topic),
		metrics:   newMetrics(d.Metrics),
		times:     cfg.Times.OrDefault(),
		upkeep: upkeep.New(upkeep.Deps{
			Pool: cmp.Or(d.Owner, d.Pool), Topic: d.Topic, Times: cfg.Times.OrDefault(), Metrics: d.Metrics, Log: d.Log, Now: d.Now,
		}),
	}
}

// Run processes until ctx ends, and returns nil then. Its stop order: polling
// stops, the batch in hand is saved, offsets are committed for the lag tools, the
// group is left.
func (p *Processor) Run(ctx context.Context) error {
	producer, err := kgo.NewClient(append(p.kafka, kgo.ProducerLinger(0))...)
	if err != nil {
		return fmt.Errorf("make the dead-letter producer: %w", err)
	}
	defer producer.Close()
	p.producer.Store(producer)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.upkeep.Run(ctx, producer) })
	g.Go(func() error { return p.watchProgress(ctx, producer) })
	g.Go(func() error {
		for ctx.Err() == nil {
			if err := p.member(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// errRewind ends a membership because records have to be read again: the next
// one starts where the database stands.
var errRewind = errors.New("read again from the stored position")

// member is one membership of the group: it joins, polls and saves until ctx ends
// or records have to be read again.
func (p *Processor) member(ctx context.Context) error {
	client, err := kgo.NewClient(append(append(p.cfg.consumerOptions(p.topic), p.kafka...),
		kgo.AdjustFetchOffsetsFn(p.start),
		kgo.OnPartitionsRevoked(p.owned.remove),
		kgo.OnPartitionsLost(p.owned.remove),
	)...)
	if err != nil {
		return fmt.Errorf("make the consumer: %w", err)
	}
	defer p.leave(ctx, client)
	p.consumer.Store(client)
	for {
		fetches := client.PollRecords(ctx, p.cfg.BatchRecords)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		p.noteErrors(ctx, client, fetches)
		b := decode(fetches, p.times.LateAfter)
		if len(b) == 0 {
			continue
		}
		p.metrics.records.Add(float64(len(b)))
		err := p.store(ctx, b)
		if errors.Is(err, errRewind) {
			p.log.WarnContext(ctx, "rejoining the group to read again from the stored position")
			p.metrics.rewinds.Inc()
			return nil
		}
		if err != nil {
			return nil //nolint:nilerror // store fails otherwise only because ctx ended.
		}
		// For lag tools only: an error here loses nothing.
		client.CommitOffsets(ctx, b.committable(p.topic), nil)
	}
}

// leaveTimeout bounds how long leaving the group may take.
const leaveTimeout = 5 * time.Second

// leave gives the partitions back, so that others need not wait for the session to time out.
func (p *Processor) leave(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := client.LeaveGroupContext(ctx); err != nil {
		p.log.WarnContext(ctx, "leaving the group took too long", "error", err)
	}
	client.Close()
	p.owned.clear()
}

// start replaces Kafka's idea of where newly assigned partitions start with the
// database's. It waits for the database as long as the assignment lasts.
func (p *Processor) start(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	assigned := offsets[p.topic]
	partitions := slices.Collect(maps.Keys(assigned))
	next, err := p.next(ctx, partitions)
	if err != nil {
		return nil, err
	}
	for partition, offset := range next {
		assigned[partition] = kgo.NewOffset().At(offset).WithEpoch(-1)
	}
	p.owned.add(next)
	p.log.InfoContext(ctx, "partitions assigned", "partitions", len(partitions))
	return offsets, nil
}

// noteErrors reports what went wrong with single partitions. What passes by
// itself is left to franz-go; a hole needs a person, and is not asked for again.
func (p *Processor) noteErrors(ctx context.Context, client *kgo.Client, fetches kgo.Fetches) {
	fetches.EachError(func(name string, partition int32, err error) {
		p.metrics.fetchErrors.Inc()
		if errors.Is(err, kerr.OffsetOutOfRange) {
			client.PauseFetchPartitions(map[string][]int32{name: {partition}})
			if !p.owned.stop(partition) {
				return
			}
			p.metrics.holes.Set(float64(p.owned.stopped()))
			p.log.ErrorContext(ctx, "kafka has deleted events that were not stored; the partition stands still. "+
				"deploy/README.md describes how to go on", "topic", name, "partition", partition)
			return
		}
		p.log.WarnContext(ctx, "fetch failed", "topic", name, "partition", partition, "error", err)
	})
}

// Ready returns nil when Kafka and the database answer, and batches are being stored or there is nothing to store.
func (p *Processor) Ready(ctx context.Context) error {
	if reason := p.failing.Load(); reason != nil {
		return fmt.Errorf("saving: %s", *reason)
	}
	if n := p.owned.stopped(); n > 0 {
		return fmt.Errorf("%d partitions stand still: kafka has deleted events that were not stored", n)
	}
	if err := p.pool.Ping(ctx); err != nil {
		return errors.New("the database does not answer")
	}
	if client := p.producer.Load(); client != nil {
		return topic.Exists(ctx, client, p.topic)
	}
	return nil
}
