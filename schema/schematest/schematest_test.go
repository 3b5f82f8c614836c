package schematest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Every edition's database is migrated as that edition.
func TestEachEditionIsMigrated(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		var events int
		if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&events); err != nil {
			t.Fatal(err)
		}
		conn, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		found, err := migrations.Detect(t.Context(), conn.Conn())
		if err != nil {
			t.Fatal(err)
		}
		if found.Edition != db.Edition {
			t.Errorf("the database says it is %s, want %s", found.Edition, db.Edition)
		}
	})
}

// Databases of tests that run at the same time share nothing, and cost milliseconds.
func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	schematest.Database(t) // The first of a process waits for the template.
	const several = 5
	began := time.Now()
	databases := make([]*schematest.DB, several)
	for i := range databases {
		databases[i] = schematest.Database(t)
	}
	t.Logf("%v for each of %d databases", time.Since(began)/several, several)
	var wg sync.WaitGroup
	for _, db := range databases {
		wg.Go(func() {
			if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE mine (n int)"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// An empty database has none of our tables.
func TestEmptyHasNoTables(t *testing.T) {
	t.Parallel()
	db := schematest.Empty(t, migrations.Plain)
	var tables int
	if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("an empty database has %d tables", tables)
	}
}

// A topic can be written and read at once, at the real broker and at the fake one.
func TestTopicIsReady(t *testing.T) {
	t.Parallel()
	brokers := map[string]func(t *testing.T) []string{
		"real": func(t *testing.T) []string { return schematest.Kafka(t) },
		"fake": func(t *testing.T) []string { return schematest.FakeKafka(t).ListenAddrs() },
	}
	for name, addrs := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := addrs(t)
			topic := schematest.Topic(t, addrs, 2)
			client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("event")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			fetches := client.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			var got []string
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
			if diff := cmp.Diff([]string{"event"}, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}
