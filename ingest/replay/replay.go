// Package replay distinguishes an event that is sent again from a new one before a cap refuses
// it: a refusal means that the event is not recorded. Another replica may have recorded
// it, so the table of idempotency keys is asked, once the processor has stored all that
// Kafka holds.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
)

// Key is an idempotency key of an account, as the event id that is derived from it.
type Key struct{ Account, Event schema.ID }

// Answer is what is known of a key. It is a metric's label.
type Answer string

// The answers.
const (
	Recorded   Answer = "recorded"   // stored
	Unrecorded Answer = "unrecorded" // neither stored nor in Kafka
	Unknown    Answer = "unknown"    // not found out in time
)

const (
	// patience is how long an event waits for its answer.
	patience = time.Second
	// gatherFor is how long a round waits before it looks. Those that come meanwhile
	// are answered together; and what a replica that was killed had sent to a broker is
	// in the log by then.
	gatherFor = 50 * time.Millisecond
	// pollInterval is how often the processor's positions are read.
	pollInterval = 25 * time.Millisecond
	// leastTime is what a round has that waited for the one before.
	leastTime = 100 * time.Millisecond
	// maxKeys bounds the keys of one round. Those that are too many are Unknown.
	maxKeys = 10_000
)

// Deps are what a Checker works with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	// Kafka is any client of the brokers that hold Topic.
	Kafka   *kgo.Client
	Topic   string
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Checker looks keys up. Whatever comes at once, one round after the other asks Kafka
// once and the database a few times. It is safe for concurrent use.
type Checker struct {
	pool    *pgxpool.Pool
	kafka   *kadm.Client
	topic   string
	log     *slog.Logger
	metrics *prometheus.CounterVec

	mu sync.Mutex
	// open is the round that takes keys, busy the one under way.
	open, busy *round
}

// round is keys that are looked up together.
type round struct {
	keys     []Key
	deadline time.Time
	done     chan struct{}
	// recorded and complete are the result: which keys are stored, and whether all that
	// Kafka held was.
	recorded map[Key]bool
	complete bool
}

// errBehind means that the processor has not stored in time what Kafka held.
var errBehind = errors.New("the processor is behind")

// New returns a Checker.
func New(d Deps) *Checker {
	c := &Checker{
		pool: d.Pool, kafka: kadm.NewClient(d.Kafka), topic: d.Topic, log: d.Log,
		metrics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outlay_ingest_replay_checks_total",
			Help: "Events with an idempotency key that a cap would refuse, by what is known of the key: recorded (answered as a duplicate), unrecorded (refused), unknown (answered 500).",
		}, []string{"answer"}),
	}
	for _, answer := range []Answer{Recorded, Unrecorded, Unknown} {
		c.metrics.WithLabelValues(string(answer))
	}
	d.Metrics.MustRegister(c.metrics)
	return c
}

// Check returns what is known of each key. It takes no longer than about a second.
func (c *Checker) Check(ctx context.Context, keys []Key) []Answer {
	answers := make([]Answer, len(keys))
	r := c.join(ctx, keys)
	for i, k := range keys {
		switch {
		case r != nil && r.recorded[k]:
			answers[i] = Recorded
		case r != nil && r.complete:
			answers[i] = Unrecorded
		default:
			answers[i] = Unknown
		}
		c.metrics.WithLabelValues(string(answers[i])).Inc()
	}
	return answers
}

// join adds keys to the open round and returns when that has ended. It returns nil if
// there is no room.
func (c *Checker) join(ctx context.Context, keys []Key) *round {
	c.mu.Lock()
	if c.open == nil {
		c.open = &round{deadline: time.Now().Add(patience), done: make(chan struct{})}
	}
	r := c.open
	if len(r.keys)+len(keys) > maxKeys {
		c.mu.Unlock()
		return nil
	}
	r.keys = append(r.keys, keys...)
	for c.busy != nil && c.busy != r {
		before := c.busy
		c.mu.Unlock()
		<-before.done // A round ends soon after its deadline.
		c.mu.Lock()
	}
	mine := c.busy == nil && c.open == r
	if mine {
		c.busy = r
	}
	c.mu.Unlock()
	if mine {
		// The client may hang up; the answer is for all who wait.
		c.run(context.WithoutCancel(ctx), r)
	}
	<-r.done
	return r
}

// run looks the keys of a round up until all of them are stored, or all that Kafka held
// is, or the time is over.
func (c *Checker) run(ctx context.Context, r *round) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.busy = nil
		close(r.done)
	}()
	time.Sleep(gatherFor)
	c.mu.Lock()
	c.open = nil
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(r.deadline), leastTime))
	defer cancel()
	// The ends are asked for after the events came, never before.
	ends, err := c.ends(ctx)
	for err == nil {
		if err = c.look(ctx, r, ends); err != nil || r.complete || len(r.recorded) == len(r.keys) {
			break
		}
		if backoff.Sleep(ctx, pollInterval) != nil {
			err = errBehind
		}
	}
	if err != nil {
		c.log.WarnContext(ctx, "refused events not looked up", "events", len(r.keys), "error", err)
	}
}

// ends returns where the log of each partition ends.
func (c *Checker) ends(ctx context.Context) (map[int32]int64, error) {
	listed, err := c.kafka.ListEndOffsets(ctx, c.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ask kafka where the topic ends: %w", err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

const (
	selectPositions = `SELECT partition, next_offset FROM kafka_offsets WHERE topic = $1`
	selectKeys      = `
SELECT k.account_id, k.event_id
FROM event_keys k JOIN unnest($1::uuid[], $2::uuid[]) AS q(account_id, event_id)
  ON k.account_id = q.account_id AND k.event_id = q.event_id`
)

// look notes which keys are stored, and whether everything before the ends is. The
// positions are read first: what stands before them is then among the keys.
func (c *Checker) look(ctx context.Context, r *round, ends map[int32]int64) error {
	accounts, ids := make([]schema.ID, len(r.keys)), make([]schema.ID, len(r.keys))
	for i, k := range r.keys {
		accounts[i], ids[i] = k.Account, k.Event
	}
	next, recorded := map[int32]int64{}, map[Key]bool{}
	var b pgx.Batch
	b.Queue(selectPositions, c.topic).Query(func(rows pgx.Rows) error {
		var partition int32
		var offset int64
		_, err := pgx.ForEachRow(rows, []any{&partition, &offset}, func() error {
			next[partition] = offset
			return nil
		})
		return err
	})
	b.Queue(selectKeys, accounts, ids).Query(func(rows pgx.Rows) error {
		var k Key
		_, err := pgx.ForEachRow(rows, []any{&k.Account, &k.Event}, func() error {
			recorded[k] = true
			return nil
		})
		return err
	})
	if err := c.pool.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("look keys up: %w", err)
	}
	r.recorded, r.complete = recorded, true
	for partition, end := range ends {
		r.complete = r.complete && next[partition] >= end
	}
	return nil
}
