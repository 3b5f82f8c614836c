package migrations_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"os"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

const ins = `
with e as (select * from unnest($1::timestamptz[], $2::bigint[]) as e(ts, n)),
late as (
  insert into late_buckets(bucket, noted_at)
  select distinct time_bucket('15 minutes', ts), now() from e where ts < $3
  on conflict (bucket) do update set noted_at = excluded.noted_at)
insert into events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, latency_ms, cost_nano_usd, cost_source, kafka_partition, kafka_offset)
select ts, ('00000000-0000-0000-0000-00000000000'||(n%3))::uuid, gen_random_uuid(), now(), 'agent-'||(n%7), 'p', 'm', 's', true, 'ok', n, 1,0,0,0,0, n%5000, n, 'calculated', 0, 0 from e`

func TestLive(t *testing.T) {
	dur, _ := time.ParseDuration(os.Getenv("LIVE"))
	if dur == 0 { t.Skip() }
	db := schematest.DatabaseOf(t, migrations.Community)
	ctx := t.Context()
	start := time.Now().UTC().Add(-20 * 24 * time.Hour).Truncate(time.Hour)
	var vnow atomic.Int64
	vnow.Store(start.Unix())
	now := func() time.Time { return time.Unix(vnow.Load(), 0).UTC() }
	stop := time.Now().Add(dur)
	var g errgroup.Group
	var inserted, refreshes, conflicts, checks, settled, late atomic.Int64
	conn := func() *pgx.Conn { c, err := pgx.Connect(ctx, db.URL); if err != nil { panic(err) }; return c }
	for w := range 3 {
		g.Go(func() error {
			c := conn(); defer c.Close(ctx)
			for time.Now().Before(stop) {
				v := now()
				var ts []time.Time; var n []int64
				for range 50 {
					age := time.Duration(rand.Int64N(int64(59*time.Minute)))
					if w == 2 && rand.IntN(10) == 0 {
						age = 130*time.Minute + time.Duration(rand.Int64N(int64(72*time.Hour)))
						late.Add(1)
					}
					ts = append(ts, v.Add(-age)); n = append(n, rand.Int64N(1e6))
				}
				if _, err := c.Exec(ctx, ins, ts, n, v.Add(-2*time.Hour)); err != nil { return err }
				inserted.Add(50)
				time.Sleep(2*time.Millisecond)
			}
			return nil
		})
	}
	// clock
	g.Go(func() error {
		for time.Now().Before(stop) { time.Sleep(150*time.Millisecond); vnow.Add(300) }
		return nil
	})
	refresh := func(view string, width time.Duration) {
		g.Go(func() error {
			c := conn(); defer c.Close(ctx)
			for time.Now().Before(stop) {
				v := now()
				// wait for writers in flight: their age is bounded by 59 min, 75 min leaves 16 min = virtual 480 ms... 
				end := v.Add(-75*time.Minute).Truncate(width)
				_, err := c.Exec(ctx, `call refresh_continuous_aggregate($1::regclass, $2::timestamptz, $3::timestamptz)`, view, v.Add(-45*24*time.Hour), end)
				var pe *pgconn.PgError
				if errors.As(err, &pe) && pe.Code == "55P03" { conflicts.Add(1); err = nil }
				if err != nil { return fmt.Errorf("%s: %w", view, err) }
				refreshes.Add(1)
				time.Sleep(time.Duration(1000+rand.IntN(1500))*time.Millisecond)
			}
			return nil
		})
	}
	refresh("usage_15m", 15*time.Minute); refresh("usage_hourly", time.Hour); refresh("usage_daily", 24*time.Hour)
	for range 2 {
		g.Go(func() error {
			c := conn(); defer c.Close(ctx)
			for time.Now().Before(stop) {
				n, err := migrations.RefreshLate(ctx, c, time.Now())
				if err != nil { return err }
				settled.Add(int64(n))
				time.Sleep(50*time.Millisecond)
			}
			return nil
		})
	}
	for i := range 2 {
		g.Go(func() error {
			c := conn(); defer c.Close(ctx)
			for time.Now().Before(stop) {
				iso := pgx.RepeatableRead
				tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: iso})
				if err != nil { return err }
				for view, width := range map[string]string{"usage_15m":"15 minutes","usage_hourly":"1 hour","usage_daily":"1 day"} {
					var bad int
					var what string
					q := `with r as (select time_bucket($1::interval, ts) b, count(*) n, sum(cost_nano_usd) c, max(ts) l from events group by 1),
 u as (select bucket b, sum(events) n, sum(cost_nano_usd) c, max(last_ts) l from `+view+` group by 1),
 noted as (select distinct time_bucket($1::interval, bucket) b from late_buckets)
 select count(*), coalesce(string_agg(format('%s raw %s/%s view %s/%s', b, r.n, r.c, u.n, u.c), '; '), '') from r full join u using (b) where (r.n,r.c,r.l) is distinct from (u.n,u.c,u.l) and b not in (select b from noted)`
					if err := tx.QueryRow(ctx, q, width).Scan(&bad, &what); err != nil { return err }
					if bad > 0 { return fmt.Errorf("reader %d %s at %v: %d differ: %s", i, view, now(), bad, what) }
				}
				if err := tx.Commit(ctx); err != nil { return err }
				checks.Add(1)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil { t.Fatal(err) }
	t.Logf("inserted %d late %d refreshes %d conflicts %d settled %d checks %d virtual %v", inserted.Load(), late.Load(), refreshes.Load(), conflicts.Load(), settled.Load(), checks.Load(), now().Sub(start))
}
