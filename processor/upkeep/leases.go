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
	"github.com/outlayhq/outlay/schema/pgdb"
)

// releaseLeases gives what leases hold back to their caps, once nothing can be on its way under them.
func (u *Upkeep) releaseLeases(ctx context.Context, conn *pgx.Conn, kafka *kgo.Client) error {
	if err := drop(ctx, conn, selectEmpty, u.Times.DeadAfter); err != nil {
		return err
	}
	if err := u.setBarriers(ctx, conn, kafka); err != nil {
		return err
	}
	return drop(ctx, conn, selectPassed, u.Topic)
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

// drop_leases keeps the ids of leases that held something, for late events to be refused by.
const dropLeases = `SELECT drop_leases($1)`

// drop drops the leases that a query finds. What they hold becomes free for other replicas.
func drop(ctx context.Context, conn *pgx.Conn, query string, args ...any) error {
	ids, err := leaseIDs(ctx, conn, query, args...)
	if err != nil || len(ids) == 0 {
		return err
	}
	return pgdb.Exec(ctx, conn, "drop leases", dropLeases, ids)
}

// leaseIDs returns the ids that a query finds, at most 10 000 of them: the others have to wait for the next run.
func leaseIDs(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]schema.ID, error) {
	rows, _ := conn.Query(ctx, query, args...)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[schema.ID])
	if err != nil {
		return nil, fmt.Errorf("find leases: %w", err)
	}
	return ids, nil
}

// A lease that holds something and that is not spent any more: nothing is in flight under one that is closed, and what a dead replica
// has in flight is refused if it comes after the barrier.
const selectEnded = `
SELECT l.lease_id FROM budget_leases l
WHERE l.barrier IS NULL AND (l.closed_at IS NOT NULL
  OR NOT EXISTS (SELECT FROM ingest_replicas r WHERE r.replica_id = l.replica_id AND r.seen_at > now() - $1::interval))
LIMIT 10000`

// barrier maps partitions to the offsets that their logs ended at.
const setBarrier = `UPDATE budget_leases SET barrier = $2 WHERE lease_id = ANY($1) AND barrier IS NULL`

// setBarriers notes for leases that have ended where Kafka's log ends now: what
// of them was acknowledged to a client stands before that.
func (u *Upkeep) setBarriers(ctx context.Context, conn *pgx.Conn, kafka *kgo.Client) error {
	ids, err := leaseIDs(ctx, conn, selectEnded, u.Times.DeadAfter)
	if err != nil || len(ids) == 0 {
		return err
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
	return pgdb.Exec(ctx, conn, "set barriers", setBarrier, ids, text)
}

// The leases whose barrier the processors have passed: what was on its way is stored, and the rest of the money is free again. What
// comes later is refused.
const selectPassed = `
SELECT l.lease_id FROM budget_leases l
WHERE l.barrier IS NOT NULL AND NOT EXISTS (
  SELECT FROM jsonb_each_text(l.barrier) AS b(partition, "end")
  LEFT JOIN kafka_offsets o ON o.topic = $1 AND o.partition = b.partition::integer
  WHERE coalesce(o.next_offset, 0) < b."end"::bigint)
LIMIT 10000`

// The clock is the database's, as in all statements about replicas.
const deleteDeadReplicas = `
DELETE FROM ingest_replicas r WHERE seen_at < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM budget_leases l WHERE l.replica_id = r.replica_id)`

// forgetReplicas deletes the rows of ingest replicas that have been silent for a day and hold no lease.
func forgetReplicas(ctx context.Context, conn *pgx.Conn) error {
	return pgdb.Exec(ctx, conn, "forget dead replicas", deleteDeadReplicas)
}
