package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/ingest"
	"github.com/outlayhq/outlay/ingest/lease"
	"github.com/outlayhq/outlay/ingest/limit"
	"github.com/outlayhq/outlay/processor"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/pricing"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/schematest/proxy"
)

// cutOffTimes are the times by which replicas are taken for dead, in seconds instead of minutes.
var cutOffTimes = budget.Times{ValidFor: 4 * time.Second, DeadAfter: 8 * time.Second, ConfirmWithin: time.Second, LateAfter: 2 * time.Second}

// cutOff is two ingest replicas, of which one reaches Kafka and the database through proxies only, and a processor, on a real Kafka.
type cutOff struct {
	*testing.T
	db    *schematest.DB
	topic string
	// admin reads the topic.
	admin *kadm.Client
	scope budget.Scope
	key   string
	// kafka and database are the ways of the replica far; near goes straight.
	kafka, database *proxy.Proxy
	far, near       *served
}

// served is an ingest tier that runs in this process.
type served struct {
	*tier
	url  string
	stop func()
}

func newCutOff(t *testing.T) *cutOff {
	t.Helper()
	brokers := schematest.Kafka(t)
	c := &cutOff{T: t, db: schematest.Database(t), topic: schematest.Topic(t, brokers, 3), kafka: schematest.Proxy(t, brokers[0])}
	made, err := createAccount(t.Context(), c.db.Pool, newAccount{name: "test", email: "owner@example.com", plan: account.Enterprise})
	if err != nil {
		t.Fatal(err)
	}
	c.key, c.scope = made.APIKey, budget.Scope{AccountID: made.id, Agent: "capped"}
	address, err := url.Parse(c.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.database = schematest.Proxy(t, address.Host)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.admin = kadm.NewClient(client)
	c.far = c.serve(brokers, c.database, kgo.Dialer(c.kafka.Dial), kgo.ProduceRequestTimeout(time.Second))
	c.near = c.serve(brokers, nil)
	c.process(brokers)
	return c
}

// serve starts an ingest tier, whose connections to the database go through the proxy if there is one.
func (c *cutOff) serve(brokers []string, database *proxy.Proxy, opts ...kgo.Opt) *served {
	c.Helper()
	poolConfig, err := pgxpool.ParseConfig(c.db.URL)
	if err != nil {
		c.Fatal(err)
	}
	if database != nil {
		poolConfig.ConnConfig.DialFunc = database.Dial
	}
	pool, err := pgxpool.NewWithConfig(c.Context(), poolConfig)
	if err != nil {
		c.Fatal(err)
	}
	registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	books, err := newBooks(pricing.Config{}, pool, registry, log)
	if err != nil {
		c.Fatal(err)
	}
	cfg := ingest.DefaultConfig()
	cfg.ProduceTimeout = cutOffTimes.ConfirmWithin / 2
	t, err := newIngest(cfg, proxyFlags{}, lease.Config{OnDatabaseDown: "closed", Times: cutOffTimes}, limit.DefaultConfig(), books, pool,
		append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...), topicNames{Topic: c.topic}, registry, log)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	var work sync.WaitGroup
	work.Go(func() { _ = t.run(ctx) })
	server := httptest.NewServer(t.handler)
	s := &served{tier: t, url: server.URL, stop: sync.OnceFunc(func() {
		server.Close()
		flush, done := context.WithTimeout(context.WithoutCancel(c.Context()), time.Second)
		defer done()
		_ = t.flush(flush) // What is held cannot be flushed.
		cancel()
		work.Wait()
		pool.Close()
	})}
	c.Cleanup(s.stop)
	await(c.T, "ingest to be ready", func() bool { return t.ready(c.Context()) == nil })
	return s
}

// process starts a processor.
func (c *cutOff) process(brokers []string) {
	c.Helper()
	cfg := processor.DefaultConfig()
	cfg.Group, cfg.Times = c.topic, cutOffTimes
	p := processor.New(cfg, processor.Deps{
		Pool: c.db.Pool, Kafka: []kgo.Opt{kgo.SeedBrokers(brokers...)}, Topic: c.topic, DeadLetters: c.topic + "-dead",
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
}

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// number returns what a query returns.
func (c *cutOff) number(sql string, args ...any) (n int64) {
	c.Helper()
	if err := c.db.Pool.QueryRow(c.Context(), sql, args...).Scan(&n); err != nil {
		c.Fatal(err)
	}
	return n
}

// put sets the cap.
func (c *cutOff) put(limit schema.NanoUSD, zone string) {
	c.Helper()
	err := budget.NewStore(c.db.Pool).Put(c.Context(), budget.Budget{
		Scope: c.scope, Limit: limit, Period: budget.Total, Timezone: zone, OnUnpriced: budget.Allow,
	})
	if err != nil {
		c.Fatal(err)
	}
}

// event is the body of an event of the capped agent; an empty key is none.
func (c *cutOff) event(key string) string {
	if key != "" {
		key = fmt.Sprintf(`,"idempotency_key":%q`, key)
	}
	return fmt.Sprintf(`{"agent":%q,"cost_usd":%s%s}`, c.scope.Agent, cutOffCost, key)
}

func (c *cutOff) post(s *served, path, body string, answer any) int {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode
}

func (c *cutOff) track(s *served, key string) int {
	c.Helper()
	return c.post(s, "/v1/track", c.event(key), &struct{}{})
}

// trackConfirmed sends events until one is confirmed, and returns how many were not.
func (c *cutOff) trackConfirmed(s *served) (unclear int64) {
	c.Helper()
	await(c.T, "an event to be confirmed", func() bool {
		if c.track(s, "") == http.StatusOK {
			return true
		}
		unclear++
		return false
	})
	return unclear
}

// begin sends events to far until one is confirmed, and returns how many are stored.
func (c *cutOff) begin() (stored int64) {
	c.Helper()
	c.trackConfirmed(c.far)
	await(c.T, "the first events to be stored", func() bool {
		stored = c.number(`SELECT count(*) FROM events`)
		return stored > 0 && stored == c.ends()
	})
	return stored
}

// hold sends 200 events with keys to far, in a batch, while nothing reaches Kafka, and returns how many it let through; a busy
// machine's database may not answer for all. None is confirmed.
func (c *cutOff) hold() (held int64) {
	c.Helper()
	c.kafka.Hold()
	events := make([]string, 200)
	for i := range events {
		events[i] = c.event(fmt.Sprint("held-", i))
	}
	var answer struct {
		Results []struct {
			Status int
			Detail string
		}
	}
	if status := c.post(c.far, "/v1/track/batch", "["+strings.Join(events, ",")+"]", &answer); status != http.StatusMultiStatus || len(answer.Results) != len(events) {
		c.Fatalf("a batch that does not reach Kafka is answered %d with %d results", status, len(answer.Results))
	}
	for i, result := range answer.Results {
		if result.Status != http.StatusInternalServerError {
			c.Fatalf("event %d that does not reach Kafka is answered %d, want 500", i, result.Status)
		}
		if strings.Contains(result.Detail, "could not be confirmed") {
			held++
		}
	}
	if held == 0 {
		c.Fatal("no event of the batch was let through")
	}
	return held
}

// exhaust sends events to near until the cap is reached, and returns how many were confirmed and how many may be recorded.
func (c *cutOff) exhaust() (confirmed, unclear int64) {
	c.Helper()
	refused := 0
	await(c.T, "the cap to be reached", func() bool {
		switch status := c.track(c.near, ""); status {
		case http.StatusOK:
			confirmed++
			refused = 0
		case http.StatusPaymentRequired:
			refused++
		default:
			unclear++
		}
		return refused == 20
	})
	return confirmed, unclear
}

// checkBound fails the test unless what is stored once Kafka has everything is at most the cap and one event, and as many events as
// were confirmed and may have been recorded besides, and everything is accounted for.
func (c *cutOff) checkBound(confirmed, unclear, refusedLate int64) {
	c.Helper()
	await(c.T, "everything to be processed", func() bool {
		return c.number(`SELECT coalesce(sum(accepted), 0)::bigint FROM intake`) >= confirmed+refusedLate &&
			c.ends() == c.number(`SELECT sum(next_offset)::bigint FROM kafka_offsets`)
	})
	spent := schema.NanoUSD(c.number(`SELECT sum(cost_nano_usd)::bigint FROM events`))
	c.Logf("stored %s USD of a cap of %s, refused %d events late", spent, cutOffLimit, refusedLate)
	if spent > cutOffLimit+cutOffCost {
		c.Errorf("stored %s of a cap of %s", spent, cutOffLimit)
	}
	if stored := c.number(`SELECT count(*) FROM events`); stored < confirmed || stored > confirmed+unclear {
		c.Errorf("%d events are stored, want %d confirmed and at most %d more", stored, confirmed, unclear)
	}
	for sql, want := range map[string]int64{
		`SELECT sum(refused_late)::bigint FROM intake`:                 refusedLate,
		`SELECT coalesce(sum(abs(difference)), 0)::bigint FROM intake`: 0,
	} {
		if got := c.number(sql); got != want {
			c.Errorf("%s = %d, want %d", sql, got, want)
		}
	}
}

// awaitRelease waits until the leases of far are given to others.
func (c *cutOff) awaitRelease() {
	c.Helper()
	await(c.T, "the leases to be given to others", func() bool {
		return c.number(`SELECT count(*) FROM budget_leases`) == 0 && c.number(`SELECT count(*) FROM released_leases`) > 0
	})
}
