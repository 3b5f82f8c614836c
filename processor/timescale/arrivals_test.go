package timescale_test

import (
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// differing counts what arrivals, in rows of whatever width, and the events
// themselves do not agree on, latencies included.
const differing = `
WITH kept AS (
  SELECT account_id, date_bin('1 hour', bucket, '2000-01-01') AS hour, agent, provider, model, sum(events) AS events,
    sum(errors) AS errors, sum(unpriced_events) AS unpriced, sum(input_tokens) AS input, sum(output_tokens) AS output,
    sum(cost_nano_usd) AS cost, sum(latency_histogram) AS latencies
  FROM arrivals GROUP BY 1, 2, 3, 4, 5
), counted AS (
  SELECT account_id, date_bin('1 hour', received_at, '2000-01-01') AS hour, agent, provider, model, count(*)::numeric AS events,
    count(*) FILTER (WHERE status = 'error')::numeric AS errors, count(*) FILTER (WHERE cost_source = 'unpriced')::numeric AS unpriced,
    sum(input_tokens) AS input, sum(output_tokens) AS output, sum(cost_nano_usd) AS cost,
    coalesce(sum(latency_histogram(latency_ms)), 0) AS latencies
  FROM events GROUP BY 1, 2, 3, 4, 5
)
SELECT count(*) FROM ((SELECT * FROM kept EXCEPT ALL SELECT * FROM counted) UNION ALL (SELECT * FROM counted EXCEPT ALL SELECT * FROM kept)) AS d`

// mixed are events over some hours, with every latency at which a slot of the
// histogram begins and the one before.
func mixed(first int64) []timescale.Item {
	latencies := []int64{schema.NoLatency, 0, 1, 2, 3, 4, 5, 6, 7, 1 << 30, schema.MaxCount}
	for power := 12; power <= 4*24; power++ {
		at := int64(math.Ceil(math.Exp2(float64(power) / 4)))
		latencies = append(latencies, at-1, at)
	}
	batch := items(first, len(latencies))
	for i := range batch {
		e := &batch[i].Event
		e.LatencyMS = latencies[i]
		e.Agent = []string{"a", "b", "ü"}[i%3]
		e.Provider = []string{"", "openai"}[i%2]
		e.Model = []string{"", "m1", "m2", "m3"}[i%4]
		e.ReceivedAt = e.ReceivedAt.Add(-time.Duration(i) * 97 * time.Second)
		e.InputTokens, e.OutputTokens, e.Cost = int64(i), 2*int64(i), schema.NanoUSD(i)*7
		if i%5 == 0 {
			e.Status = schema.StatusError
		}
		if i%7 == 0 {
			e.Source, e.Cost = schema.CostUnpriced, 0
		}
	}
	return batch
}

func disagreements(t *testing.T, db *schematest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), differing).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The sums that alerts read are those of the stored events: each once, in every
// measure, however they are folded, and while batches go on being stored.
func TestArrivalsAreTheSumsOfTheEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		offset := int64(0)
		store := func() {
			batch := mixed(offset)
			if _, err := sink.Save(t.Context(), span(offset, len(batch)), batch); err != nil {
				t.Error(err)
			}
			offset += int64(len(batch))
		}
		store()
		store()
		if n := disagreements(t, db); n != 0 {
			t.Errorf("%d sums differ from their events", n)
		}
		var g errgroup.Group
		g.Go(func() error {
			for range 10 {
				store()
			}
			return nil
		})
		g.Go(func() error {
			for i := range 20 {
				fold(t, db, 1, 15, time.Duration(i%3)*time.Hour)
				fold(t, db, 15, 60, time.Duration(i%2)*time.Hour)
			}
			return nil
		})
		_ = g.Wait()
		if n := disagreements(t, db); n != 0 {
			t.Errorf("%d sums differ from their events after folding beside storing", n)
		}
		fold(t, db, 1, 15, -time.Hour)
		fold(t, db, 15, 60, -time.Hour)
		var widths []int16
		rows, _ := db.Pool.Query(t.Context(), `SELECT DISTINCT minutes FROM arrivals`)
		widths, err := pgx.CollectRows(rows, pgx.RowTo[int16])
		if err != nil || len(widths) != 1 || widths[0] != 60 || disagreements(t, db) != 0 {
			t.Errorf("folded into widths %v (%v), %d sums differ", widths, err, disagreements(t, db))
		}
	})
}

func fold(t *testing.T, db *schematest.DB, from, to int, age time.Duration) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `SELECT fold_arrivals($1, $2, $3, 1000000)`, from, to, time.Now().Add(-age)); err != nil {
		t.Error(err)
	}
}

// A batch of the largest counts there are is stored: no sum overflows.
func TestTheLargestArrivalsAreStored(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		for first := int64(0); first < 6000; first += 2000 {
			batch := items(first, 2000)
			for i := range batch {
				batch[i].Event.InputTokens, batch[i].Event.OutputTokens = schema.MaxCount, schema.MaxCount
			}
			if _, err := sink.Save(t.Context(), span(first, len(batch)), batch); err != nil {
				t.Fatal(err)
			}
		}
	})
}
