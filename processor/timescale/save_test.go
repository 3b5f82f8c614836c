package timescale_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/schematest"
)

const topic = "topic"

var account = schema.ID{15: 7}

// items are n plain events of partition 0 from offset first.
func items(first int64, n int) []timescale.Item {
	now := time.Now().UTC().Truncate(time.Microsecond)
	items := make([]timescale.Item, n)
	for i := range items {
		items[i] = timescale.Item{Offset: first + int64(i), Event: schema.Event{
			ID: schema.NewID(now), AccountID: account, Agent: "a", SessionID: "ses_s", Time: now, ReceivedAt: now,
			LatencyMS: schema.NoLatency, Cost: 1, Source: schema.CostCalculated, Status: schema.StatusOK,
		}}
	}
	return items
}

func span(first int64, n int) []timescale.Span {
	return []timescale.Span{{Partition: 0, First: first, Next: first + int64(n)}}
}

func newSink(t *testing.T, db *schematest.DB) *timescale.Sink {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test') ON CONFLICT DO NOTHING`, account); err != nil {
		t.Fatal(err)
	}
	if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	return timescale.New(db.Pool, topic)
}

func count(t *testing.T, db *schematest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A batch that starts anywhere but where its partition stands stores nothing.
func TestSaveIsFenced(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		if _, err := sink.Save(t.Context(), span(0, 3), items(0, 3)); err != nil {
			t.Fatal(err)
		}
		for name, first := range map[string]int64{"again": 0, "overlapping": 2, "ahead": 4} {
			_, err := sink.Save(t.Context(), span(first, 3), items(first, 3))
			if !errors.Is(err, timescale.ErrFenced) || timescale.Classify(err) != timescale.Fenced {
				t.Errorf("%s: %v, want ErrFenced", name, err)
			}
		}
		if n := count(t, db); n != 3 {
			t.Errorf("%d events stored, want 3", n)
		}
		if _, err := sink.Save(t.Context(), span(3, 1), items(3, 1)); err != nil {
			t.Errorf("the next batch: %v", err)
		}
	})
}

// Of any number of processors that try the same batch at once, one stores it.
func TestSaveHasOneWinner(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		newSink(t, db)
		const tries = 4
		won := make(chan int, tries)
		var g errgroup.Group
		for i := range tries {
			g.Go(func() error {
				_, err := timescale.New(db.Pool, topic).Save(t.Context(), span(0, 500), items(0, 500))
				if err == nil {
					won <- i
				} else if !errors.Is(err, timescale.ErrFenced) {
					return err
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(won) != 1 || count(t, db) != 500 {
			t.Errorf("%d winners, %d events, want 1 and 500", len(won), count(t, db))
		}
	})
}

// Two batches that bring the same keys in opposite orders wait for each other in one order only: neither ends in a deadlock.
func TestSaveTakesKeysInOrder(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		newSink(t, db)
		if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0, 1}); err != nil {
			t.Fatal(err)
		}
		up := items(0, 3)
		for i := range up {
			up[i].Event.IdempotencyKey = fmt.Sprint("key-", i)
			up[i].Event.ID = schema.ID{0: byte(i + 1), 15: 1}
		}
		down := items(0, 3)
		for i := range down {
			down[i].Partition = 1
			down[i].Event.IdempotencyKey, down[i].Event.ID = up[2-i].Event.IdempotencyKey, up[2-i].Event.ID
		}

		// Both are held at the key in the middle, which a third transaction has inserted and takes back.
		holder, err := db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Rollback(t.Context())
		if _, err := holder.Exec(t.Context(), `INSERT INTO event_keys (account_id, event_id) VALUES ($1, $2)`, account, up[1].Event.ID); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		for partition, batch := range [][]timescale.Item{up, down} {
			g.Go(func() error {
				_, err := timescale.New(db.Pool, topic).Save(t.Context(), []timescale.Span{{Partition: int32(partition), First: 0, Next: 3}}, batch)
				return err
			})
		}
		waiting := 0
		for waiting < 2 {
			if err := db.Pool.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if n := count(t, db); n != 3 {
			t.Errorf("%d events stored, want 3", n)
		}
	})
}

// A key that two partitions bring at the same time is stored once: the one that
// comes second finds out and starts again without it.
func TestSaveSurvivesAKeyRace(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		newSink(t, db)
		if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		for partition := range int32(4) {
			g.Go(func() error {
				batch := items(0, 50)
				for i := range batch {
					e := &batch[i].Event
					batch[i].Partition = partition
					e.IdempotencyKey = fmt.Sprint("key-", i)
					e.ID = schema.KeyedEventID(account, e.IdempotencyKey)
				}
				_, err := timescale.New(db.Pool, topic).Save(t.Context(),
					[]timescale.Span{{Partition: partition, First: 0, Next: 50}}, batch)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db); n != 50 {
			t.Errorf("%d events stored, want 50", n)
		}
	})
}

// What the data is to blame for is Data; what passes by itself is not.
func TestClassify(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	sink := newSink(t, db)
	bad := items(0, 1)
	bad[0].Event.Step = "a\x00"
	_, err := sink.Save(t.Context(), span(0, 1), bad)
	if got := timescale.Classify(err); got != timescale.Data {
		t.Errorf("NUL in a text: class %s (%v), want data", got, err)
	}
	negative := items(0, 1)
	negative[0].Event.Cost = -1
	if _, err = sink.Save(t.Context(), span(0, 1), negative); timescale.Classify(err) != timescale.Data {
		t.Errorf("a check that fails: class %s (%v), want data", timescale.Classify(err), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = sink.Save(ctx, span(0, 1), items(0, 1)); timescale.Classify(err) != timescale.Transient {
		t.Errorf("an ended context: class %s (%v), want transient", timescale.Classify(err), err)
	}
	db.Pool.Close()
	if _, err = sink.Save(t.Context(), span(0, 1), items(0, 1)); timescale.Classify(err) != timescale.Transient {
		t.Errorf("no database: class %s (%v), want transient", timescale.Classify(err), err)
	}
}

// A partition is complete up to a moment only if all that Kafka had then is
// stored.
func TestCompleteNeedsAllThatWasThere(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	sink := newSink(t, db)
	if _, err := sink.Save(t.Context(), span(0, 3), items(0, 3)); err != nil {
		t.Fatal(err)
	}
	positions := timescale.NewPositions(db.Pool, topic)
	at := time.Now().UTC().Truncate(time.Microsecond)
	for _, c := range []struct {
		mark timescale.Mark
		want bool
	}{
		{timescale.Mark{End: 4, At: at.Add(time.Hour)}, false},
		{timescale.Mark{End: 3, At: at}, true},
		{timescale.Mark{End: 1, At: at.Add(-time.Hour)}, true}, // an older moment changes nothing
	} {
		if err := positions.Complete(t.Context(), []timescale.Mark{c.mark}); err != nil {
			t.Fatal(err)
		}
		var reached bool
		err := db.Pool.QueryRow(t.Context(), `SELECT complete_until = $1 FROM kafka_offsets`, at).Scan(&reached)
		if err != nil || reached != c.want {
			t.Errorf("after %+v: complete = %v, %v, want %v", c.mark, reached, err, c.want)
		}
	}
}

// A batch that accounts for fewer or more records than it passes offsets stores nothing, and is
// not put aside either.
func TestSaveAccountsForEveryOffset(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		sink := newSink(t, db)
		for name, batch := range map[string][]timescale.Item{"short": items(0, 3)[:2], "long": items(0, 4), "empty": nil} {
			_, err := sink.Save(t.Context(), span(0, 3), batch)
			if err == nil || pgdb.SQLState(err) != "OL003" || timescale.Classify(err) != timescale.Transient {
				t.Errorf("%s: %v, want OL003", name, err)
			}
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d events stored, want none", n)
		}
		if _, err := sink.Save(t.Context(), span(0, 3), items(0, 3)); err != nil {
			t.Errorf("the whole batch: %v", err)
		}
	})
}
