package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/ingest/record"
	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// acceptedBodies is how many bodies are tried.
func acceptedBodies() int {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_ACCEPTED_BODIES")); err == nil {
		return n
	}
	return 4000
}

// Nothing that is answered 200 can be refused by the database: what ingest accepts of
// thousands of odd bodies and spans is stored, all of it, by the real statement.
func TestAcceptedIsStorable(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	owner := schema.NewID(time.Now())
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, owner); err != nil {
		t.Fatal(err)
	}
	if _, err := timescale.NewPositions(db.Pool, wire.EventsTopic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	broker := schematest.FakeKafka(t, kfake.SeedTopics(1, wire.EventsTopic))
	bodies := newOddBodies(uint64(time.Now().UnixNano()))
	t.Logf("seed %d", bodies.seed)
	url, secret := serveTracking(t, broker, owner)
	n := acceptedBodies()
	fromBodies := offerBodies(t, url, secret, bodies, n)
	fromSpans := offerSpans(t, url, secret, bodies, n)
	events := recorded(t, broker, fromBodies+fromSpans)
	sink := timescale.New(db.Pool, wire.EventsTopic)
	const batch = 250
	for first := 0; first < len(events); first += batch {
		store(t, sink, events, first, min(first+batch, len(events)))
	}
	var stored int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE metadata IS NULL OR metadata::jsonb::text <> ''`).Scan(&stored); err != nil {
		t.Fatalf("what was stored cannot be read: %v", err)
	}
	if stored != len(events) {
		t.Errorf("%d events stored, want %d", stored, len(events))
	}
	t.Logf("of %d bodies %d were accepted, of %d spans %d; %d events stored", n, fromBodies, n, fromSpans, stored)
}

// store saves a part of the events and, when the database refuses it, states which one.
func store(t *testing.T, sink *timescale.Sink, events []schema.Event, first, next int) {
	t.Helper()
	items := make([]timescale.Item, 0, next-first)
	for i := first; i < next; i++ {
		items = append(items, timescale.Item{Offset: int64(i), Event: events[i]})
	}
	span := []timescale.Span{{First: int64(first), Next: int64(next)}}
	result, err := sink.Save(t.Context(), span, items)
	switch {
	case err == nil && result.Stored+result.Duplicates == len(items):
	case err == nil:
		t.Fatalf("of %d events %+v", len(items), result)
	case len(items) == 1:
		t.Fatalf("the database refuses an accepted event: %v\n%+v\nmetadata %s", err, items[0].Event, items[0].Event.Metadata)
	default:
		middle := (first + next) / 2
		store(t, sink, events, first, middle)
		store(t, sink, events, middle, next)
	}
}

// serveTracking starts an ingest server with one API key and returns its address and
// the key.
func serveTracking(t *testing.T, broker *kfake.Cluster, owner schema.ID) (url, secret string) {
	t.Helper()
	client, err := kgo.NewClient(append(record.ProducerOptions(wire.EventsTopic), kgo.SeedBrokers(broker.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	secret = account.NewSecret()
	hash, _ := account.ParseSecret(secret)
	server := httptest.NewServer(ingest.New(ingest.DefaultConfig(), ingest.Deps{
		Keys: oneKey{hash, owner}, Caps: uncapped{}, Limits: unlimited{},
		Prices: func(schema.ID) *price.Book { return price.Default() },
		Kafka:  client, Topic: wire.EventsTopic, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}).Handler())
	t.Cleanup(server.Close)
	return server.URL, secret
}

// offerBodies sends n bodies as NDJSON, and returns how many were taken. Nothing may
// be answered with a 5xx.
func offerBodies(t *testing.T, url, secret string, bodies *oddBodies, n int) (accepted int) {
	t.Helper()
	const batch = 200
	for sent := 0; sent < n; sent += batch {
		var lines bytes.Buffer
		for range batch {
			lines.WriteString(bodies.next() + "\n")
		}
		accepted += offerBatch(t, url, secret, lines.String())
	}
	return accepted
}

func offerBatch(t *testing.T, url, secret, lines string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track/batch", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Accepted int
		Results  []struct{ Status int }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("the answer is not JSON: %v: %.300s", err, text)
	}
	for i, r := range answer.Results {
		if r.Status >= 500 {
			t.Errorf("status %d for %.500s", r.Status, strings.Split(lines, "\n")[i])
		}
	}
	return answer.Accepted
}

// recorded returns the n events in the topic.
func recorded(t *testing.T, broker *kfake.Cluster, n int) []schema.Event {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(wire.EventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []schema.Event
	for len(events) < n {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var e schema.Event
			if err := wire.Decode(r.Value, &e); err != nil {
				t.Fatalf("the processor cannot read an accepted event: %v", err)
			}
			events = append(events, e)
		})
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d events: %v", len(events), n, err)
		}
	}
	return events
}

// oneKey is a directory with one API key.
type oneKey struct {
	hash  account.Hash
	owner schema.ID
}

func (k oneKey) Lookup(_ context.Context, h account.Hash, _ account.Asker) (account.Credential, bool, error) {
	return account.Credential{AccountID: k.owner, Plan: account.Enterprise, Grant: account.Grant{Scopes: []account.Scope{account.Track}}}, h == k.hash, nil
}
func (oneKey) Ready() error          { return nil }
func (oneKey) Age() time.Duration    { return 0 }
func (oneKey) Size() int             { return 1 }
func (oneKey) RefusedLookups() int64 { return 0 }

// uncapped has no caps; what tracking does not ask is left out.
type uncapped struct{ ingest.Caps }

func (uncapped) Admit(context.Context, *schema.Event) (*lease.Charge, error) { return nil, nil } //nolint:nilnil // No cap, no charge.
func (uncapped) Ready() bool                                                 { return true }

func (uncapped) Known(context.Context, budget.Scope) (lease.Standing, bool) {
	return lease.Standing{}, false
}

// unlimited lets everything through.
type unlimited struct{}

func (unlimited) Take(schema.ID, account.Plan, int64) limit.Standing {
	return limit.Standing{Allowed: true}
}
func (unlimited) Return(schema.ID, int64) {}
