package upkeep

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema"
)

// releaseLeases gives what leases hold back to their caps, once nothing can be on its way under them.
func (u *Upkeep) releaseLeases(ctx context.Context, conn *pgx.Conn, kafka *kgo.Client) error {
	if err := u.dropEmpty(ctx, conn); err != nil {
		return err
	}
	if err := u.setBarriers(ctx, conn, kafka); err != nil {
		return err
	}
	return u.dropPassed(ctx, conn)
}

// A closed lease that holds nothing has nothing on its way. So does one of a
// period that ended an hour ago, or of a replica that is long dead, if it holds
// nothing.
const selectEmpty = `
SELECT l.lease_id FROM budget_leases l
WHERE l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd <= 0
  AND (l.closed_at IS NOT NULL
    OR NOT EXISTS (SELECT FROM ingest_replicas r WHERE r.replica_id = l.replica_id AND r.seen_at > now() - $1::interval))
LIMIT 10000`

const dropLeases = `SELECT drop_leases($1)`

func (u *Upkeep) dropEmpty(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, selectEmpty, u.Times.DeadAfter)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[schema.ID])
	if err != nil {
		return fmt.Errorf("find empty leases: %w", err)
	}
	return drop(ctx, conn, ids)
}

func drop(ctx context.Context, conn *pgx.Conn, ids []schema.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, dropLeases, ids); err != nil {
		return fmt.Errorf("drop %d leases: %w", len(ids), err)
	}
	return nil
}

// A lease that holds something and that is not spent any more: nothing is in flight under one that is closed, and what a dead replica
// has in flight is refused if it comes after the barrier.
const selectEnded = `
SELECT l.lease_id FROM budget_leases l
WHERE l.barrier IS NULL AND (l.closed_at IS NOT NULL
  OR NOT EXISTS (SELECT FROM ingest_replicas r WHERE r.replica_id = l.replica_id AND r.seen_at > now() - $1::interval))
LIMIT 10000`

const setBarrier = `UPDATE budget_leases SET barrier = $2 WHERE lease_id = ANY($1) AND barrier IS NULL`

// setBarriers notes for leases that have ended where Kafka's log ends now: what
// of them was acknowledged to a client stands before that.
func (u *Upkeep) setBarriers(ctx context.Context, conn *pgx.Conn, kafka *kgo.Client) error {
	rows, _ := conn.Query(ctx, selectEnded, u.Times.DeadAfter)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[schema.ID])
	if err != nil {
		return fmt.Errorf("find ended leases: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	// The ends are asked for after the leases were found, never before.
	ends, err := kadm.NewClient(kafka).ListEndOffsets(ctx, u.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask kafka where the topic ends: %w", err)
	}
	barrier := map[string]int64{}
	ends.Each(func(o kadm.ListedOffset) { barrier[strconv.Itoa(int(o.Partition))] = o.Offset })
	text, err := json.Marshal(barrier)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, setBarrier, ids, text); err != nil {
		return fmt.Errorf("set barriers: %w", err)
	}
	return nil
}

const selectPassed = `
SELECT l.lease_id FROM budget_leases l
WHERE l.barrier IS NOT NULL AND NOT EXISTS (
  SELECT FROM jsonb_each_text(l.barrier) AS b(partition, "end")
  LEFT JOIN kafka_offsets o ON o.topic = $1 AND o.partition = b.partition::integer
  WHERE coalesce(o.next_offset, 0) < b."end"::bigint)
LIMIT 10000`

// dropPassed drops the leases whose barrier the processors have passed: what was
// on its way is stored, and the rest of the money is free again. What comes later is refused.
func (u *Upkeep) dropPassed(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, selectPassed, u.Topic)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[schema.ID])
	if err != nil {
		return fmt.Errorf("find passed leases: %w", err)
	}
	return drop(ctx, conn, ids)
}

const deleteDeadReplicas = `
DELETE FROM ingest_replicas r WHERE seen_at < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM budget_leases l WHERE l.replica_id = r.replica_id)`

func forgetReplicas(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, deleteDeadReplicas); err != nil {
		return fmt.Errorf("forget dead replicas: %w", err)
	}
	return nil
}
