package timescale_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/schematest"
)

// wrongSums counts the rows of usage_15m that are not the sums of their events, in every measure.
const wrongSums = `
WITH kept AS (
  SELECT bucket, account_id, agent, model, provider, events::numeric, errors::numeric, unpriced_events::numeric, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd, latency_count::numeric, latency_sum_ms,
    latency_max_ms, latency_histogram, first_ts, last_ts
  FROM usage_15m
), counted AS (
  SELECT date_bin('15 minutes', ts, '2000-01-01 00:00:00+00') AS bucket, account_id, agent, model, provider, count(*)::numeric,
    count(*) FILTER (WHERE status = 'error')::numeric, count(*) FILTER (WHERE cost_source = 'unpriced')::numeric, sum(input_tokens),
    sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens + cache_write_1h_tokens), sum(reasoning_tokens),
    sum(cost_nano_usd), count(latency_ms)::numeric, coalesce(sum(latency_ms), 0), max(latency_ms),
    coalesce(sum(latency_histogram(latency_ms)), 0), min(ts), max(ts)
  FROM events GROUP BY 1, 2, 3, 4, 5
), wrong AS (
  (SELECT * FROM kept EXCEPT ALL SELECT * FROM counted) UNION ALL (SELECT * FROM counted EXCEPT ALL SELECT * FROM kept)
)
SELECT count(*) FROM wrong`

func wrong(t *testing.T, db *schematest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), wrongSums).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Quarter hours are the sums of their events at any moment, in every measure, while two processors store events of the last hours
// and late ones and the rollups are refreshed.
func TestSumsAreThoseOfTheEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0, 1}); err != nil {
			t.Fatal(err)
		}
		g, ctx := errgroup.WithContext(t.Context())
		stored := make(chan struct{})
		var storing errgroup.Group
		for partition := range int32(2) {
			storing.Go(func() error { return storeHours(ctx, db, partition) })
		}
		g.Go(func() error {
			defer close(stored)
			return storing.Wait()
		})
		until := func(f func(context.Context, *pgx.Conn) error) {
			g.Go(func() error {
				conn, err := pgx.Connect(ctx, db.URL)
				if err != nil {
					return err
				}
				defer conn.Close(context.WithoutCancel(ctx))
				for {
					select {
					case <-stored:
						return nil
					default:
					}
					if err := f(ctx, conn); err != nil {
						return err
					}
				}
			})
		}
		until(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := upkeep.RefreshRollups(ctx, conn, time.Now())
			return err
		})
		until(func(ctx context.Context, conn *pgx.Conn) error {
			// The snapshot comes before the plan: a plan made just before a chunk was would not read
			// it, and a later snapshot sees the sums that were stored with it.
			return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
				var n int
				err := tx.QueryRow(ctx, wrongSums).Scan(&n)
				if err == nil && n > 0 {
					t.Errorf("%d sums differ from their events while events are stored", n)
				}
				return err
			})
		})
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := wrong(t, db); n > 0 {
			t.Errorf("%d sums differ from their events", n)
		}
	})
}

// storeHours stores batches of events of the last five hours, which arrive now.
func storeHours(ctx context.Context, db *schematest.DB, partition int32) error {
	sink := timescale.New(db.Pool, topic)
	for first := int64(0); first < 3000; {
		batch := mixed(first)
		for i := range batch {
			e := &batch[i].Event
			batch[i].Partition = partition
			e.Time, e.ReceivedAt = e.ReceivedAt, e.Time
			if e.LatencyMS != schema.NoLatency {
				e.LatencyMS = rand.Int64N(e.LatencyMS + 1)
			}
			e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens = int64(i)*3, int64(i)*5, schema.MaxCount, schema.MaxCount
		}
		next := first + int64(len(batch))
		if _, err := sink.Save(ctx, []timescale.Span{{Partition: partition, First: first, Next: next}}, batch); err != nil {
			return err
		}
		first = next
	}
	return nil
}

// A batch whose sums are not of all its events is not stored.
func TestSumsOfAllEventsOrNothing(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	const move = `SELECT move_positions($1, '{0}', '{0}', '{5}', 5, 5, $2)`
	if _, err := db.Pool.Exec(t.Context(), move, topic, 4); pgdb.SQLState(err) != "OL003" {
		t.Errorf("sums of 4 of 5 events: %v, want OL003", err)
	}
	if _, err := db.Pool.Exec(t.Context(), move, topic, 5); err != nil {
		t.Errorf("sums of 5 of 5 events: %v", err)
	}
}
