package timescale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// Positions reads and moves where each partition stands. It is safe for
// concurrent use.
type Positions struct {
	pool  *pgxpool.Pool
	topic string
}

// NewPositions returns the positions of one topic. The caller owns the pool.
func NewPositions(pool *pgxpool.Pool, topic string) *Positions {
	return &Positions{pool: pool, topic: topic}
}

// A row that exists keeps its offset.
const insertPositions = `
INSERT INTO kafka_offsets (topic, partition, next_offset, updated_at)
SELECT $1, partition, 0, now() FROM unnest($2::int4[]) AS p(partition)
ON CONFLICT DO NOTHING`

const selectPositions = `
SELECT partition, next_offset FROM kafka_offsets WHERE topic = $1 AND partition = ANY($2)`

// Next returns the offset of the next record to store of each partition. A
// partition that was never seen starts at offset 0, so that records which Kafka
// has deleted already are noticed as a hole.
func (p *Positions) Next(ctx context.Context, partitions []int32) (map[int32]int64, error) {
	if err := pgdb.Exec(ctx, p.pool, "start partitions", insertPositions, p.topic, partitions); err != nil {
		return nil, err
	}
	found, err := pgdb.Rows[struct {
		Partition  int32
		NextOffset int64
	}](ctx, p.pool, "read positions", selectPositions, p.topic, partitions)
	next := make(map[int32]int64, len(found))
	for _, f := range found {
		next[f.Partition] = f.NextOffset
	}
	return next, err
}

const selectOthers = `SELECT DISTINCT topic FROM kafka_offsets WHERE topic <> $1`

// Others returns the other topics that events were stored from.
func (p *Positions) Others(ctx context.Context) ([]string, error) {
	rows, _ := p.pool.Query(ctx, selectOthers, p.topic)
	topics, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the topics of positions: %w", err)
	}
	return topics, nil
}

// Mark states that all records of a partition up to, but not including, End were
// in Kafka at time At, and no others.
type Mark struct {
	Partition int32
	End       int64
	At        time.Time
}

// "end" is quoted because it is a reserved word.
const notePartitions = `
INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until)
SELECT $1, partition, 0, CASE WHEN "end" = 0 THEN at ELSE '-infinity' END
FROM unnest($2::int4[], $3::int8[], $4::timestamptz[]) AS m(partition, "end", at)
ON CONFLICT DO NOTHING`

// Note gives partitions that were never assigned a position of 0. One that is empty is complete up to its mark's time, one that
// has records already up to no time. Partitions that have a position keep it.
func (p *Positions) Note(ctx context.Context, marks []Mark) error {
	return p.exec(ctx, "note partitions", notePartitions, marks)
}

// complete_until never goes back: the greatest time at which everything was stored still holds.
const completeMarks = `
UPDATE kafka_offsets o SET complete_until = greatest(o.complete_until, m.at)
FROM unnest($2::int4[], $3::int8[], $4::timestamptz[]) AS m(partition, "end", at)
WHERE o.topic = $1 AND o.partition = m.partition AND o.next_offset >= m."end"`

// Complete notes how far in time the stored events are complete. A mark whose
// records are not all stored has no effect.
func (p *Positions) Complete(ctx context.Context, marks []Mark) error {
	return p.exec(ctx, "note completeness", completeMarks, marks)
}

// exec runs a statement with the topic and the columns of marks.
func (p *Positions) exec(ctx context.Context, action, statement string, marks []Mark) error {
	// A column for each parameter: one round trip, however many partitions there are.
	partitions := make([]int32, len(marks))
	ends := make([]int64, len(marks))
	times := make([]time.Time, len(marks))
	for i, m := range marks {
		partitions[i], ends[i], times[i] = m.Partition, m.End, m.At
	}
	return pgdb.Exec(ctx, p.pool, action, statement, p.topic, partitions, ends, times)
}
