package reprice

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

const topic = "events"

// ledger is an account in a database, with the query tier over it. Only in these tests the two tiers meet.
type ledger struct {
	t       testing.TB
	db      *schematest.DB
	pool    *pgxpool.Pool
	account schema.ID
	url     string
	token   string
	sink    *timescale.Sink
	offset  int64
	random  *mathrand.Rand
	// all are the events as they were stored.
	all []schema.Event
}

func newLedger(t testing.TB, db *schematest.DB) *ledger {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.ParseKeys(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	server, err := query.New(query.Config{Pool: schematest.As(t, db.Pool, "outlay_query"), Keys: keys, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	accounts := account.NewStore(db.Pool, time.Now)
	a, err := accounts.CreateAccount(t.Context(), "test", account.Enterprise)
	if err != nil {
		t.Fatal(err)
	}
	user, err := accounts.CreateUser(t.Context(), a.ID, "owner@example.com", "x", account.Owner)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := auth.NewTokens(keys, "outlay", time.Hour, time.Now).Issue(auth.Principal{UserID: user.ID, AccountID: a.ID, Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	return &ledger{
		t: t, db: db, pool: db.Pool, account: a.ID, url: front.URL, token: token,
		sink: timescale.New(db.Pool, topic), random: mathrand.New(mathrand.NewPCG(1, 2)),
	}
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatalf("%.100s: %v", sql, err)
	}
}

// ask returns the body of an answer that has to have this status.
func (l *ledger) ask(method, path, body string, status int) []byte {
	l.t.Helper()
	return schematest.Ask(l.t, method, l.url+path, l.token, body, status)
}

func (l *ledger) get(path string, v any) {
	l.t.Helper()
	d := json.NewDecoder(bytes.NewReader(l.ask(http.MethodGet, path, "", http.StatusOK)))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		l.t.Fatal(err)
	}
}

// price gives an event its cost, as ingest would.
func (l *ledger) price(e *schema.Event, book *price.Book) {
	l.t.Helper()
	q, err := book.Quote(e.Provider, e.Model, e.Time, price.Usage{
		Input: e.InputTokens, Output: e.OutputTokens, CacheRead: e.CacheReadTokens, CacheWrite: e.CacheWriteTokens,
		CacheWrite1h: e.CacheWrite1hTokens, Reasoning: e.ReasoningTokens, Given: true,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if q.Provider != "" {
		e.Provider = q.Provider
	}
	e.Cost, e.Source, e.PriceID, e.Breakdown = schema.NanoUSD(q.CostNanoUSD), schema.CostSource(q.Source), q.PriceID, nil
	if q.Source == price.Calculated {
		e.Breakdown = wire.AppendBreakdown(nil, &q)
	}
}

// models are what events are of: two that a price is known of, one that none is known of, and one that nobody named.
var models = []string{"gpt-4o", "claude-sonnet-4", "in-house-7b", ""}

// event is an event of some kind, that happened and arrived at these times.
func (l *ledger) event(at, received time.Time) schema.Event {
	n := l.random.Int64N
	at, received = at.UTC().Truncate(time.Microsecond), received.UTC().Truncate(time.Microsecond)
	id := schema.NewID(received)
	e := schema.Event{
		ID: id, AccountID: l.account, Agent: fmt.Sprintf("agent-%d", n(4)), Model: models[n(int64(len(models)))],
		SessionID: fmt.Sprintf("ses_%d", n(40)), Time: at, ReceivedAt: received, LatencyMS: n(3000), Status: schema.StatusOK,
		InputTokens: 1000 + n(9000), OutputTokens: n(2000), CacheReadTokens: n(500), CacheWriteTokens: n(200), ReasoningTokens: n(100),
	}
	if n(5) == 0 {
		e.SessionID, e.SessionImplicit = schema.ImplicitSessionID(id), true
	}
	if n(10) == 0 {
		e.Status = schema.StatusError
	}
	l.price(&e, price.Default())
	switch n(8) {
	case 0:
		e.Cost, e.Source, e.PriceID, e.Breakdown = schema.NanoUSD(n(1_000_000_000)), schema.CostClient, "", nil
	case 1:
		e.InputTokens, e.OutputTokens, e.CacheReadTokens, e.CacheWriteTokens, e.ReasoningTokens = 0, 0, 0, 0, 0
		e.Cost, e.Source, e.PriceID, e.Breakdown = 0, schema.CostNoUsage, "", nil
	}
	return e
}

// store adds events as the processor does.
func (l *ledger) store(events ...schema.Event) {
	l.t.Helper()
	for len(events) > 0 {
		n := min(len(events), 5000)
		items := make([]timescale.Item, n)
		for i := range items {
			items[i] = timescale.Item{Offset: l.offset + int64(i), Event: events[i]}
		}
		spans := []timescale.Span{{First: l.offset, Next: l.offset + int64(n)}}
		if _, err := l.sink.Save(l.t.Context(), spans, items); err != nil {
			l.t.Fatal(err)
		}
		l.offset += int64(n)
		l.all = append(l.all, events[:n]...)
		events = events[n:]
	}
}

// materialise has all sums where they are a while later: in the aggregates and the list of sessions, and what is older than a few
// days in the columnstore.
func (l *ledger) materialise() {
	l.t.Helper()
	l.exec(`SELECT fold_sessions(1000000)`)
	l.exec(`SELECT fold_arrivals(1, 15, date_bin('15 minutes', now() - interval '2 hours', '2000-01-01'), 1000000)`)
	l.exec(`SELECT fold_arrivals(15, 60, date_bin('1 hour', now() - interval '26 hours', '2000-01-01'), 1000000)`)
	if l.db.Edition == migrations.Community {
		l.exec(`SELECT compress_chunk(c) FROM show_chunks('events', older_than => interval '7 days') c`)
	}
	l.refresh()
}

// upkeep brings aggregates up to date after late events until the test ends, as the processor does.
func (l *ledger) upkeep(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for backoff.Sleep(ctx, 100*time.Millisecond) == nil {
			conn, err := l.pool.Acquire(ctx)
			if err != nil {
				return
			}
			_, err = upkeep.RefreshRollups(ctx, conn.Conn(), time.Now())
			conn.Release()
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// runner works on jobs until it is stopped, or the test ends.
type runner struct {
	registry *prometheus.Registry
	stop     func()
}

func (l *ledger) run(t *testing.T) *runner {
	t.Helper()
	registry := prometheus.NewRegistry()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w := jobs.New(jobs.Deps{Pool: schematest.As(l.t, l.pool, "outlay_processor"), Metrics: registry, Log: log})
	Register(Deps{Pool: schematest.As(l.t, l.pool, "outlay_processor"), Topic: topic, Jobs: w, Metrics: registry, Log: log})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r := &runner{registry, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(r.stop)
	return r
}

// jobReply is what a job answers.
type jobReply struct {
	ID, State   string
	Attempt     int
	Done, Total int64
	Error       *string
	Result      *result
}

type result struct {
	Events, Changed int64
	TooLarge        int64       `json:"too_large"`
	Before          json.Number `json:"before_usd"`
	After           json.Number `json:"after_usd"`
	Difference      json.Number `json:"difference_usd"`
	UnpricedBefore  int64       `json:"unpriced_before"`
	UnpricedAfter   int64       `json:"unpriced_after"`
	Rows            []row       `json:"by_day_and_model"`
	RowsLeftOut     int64       `json:"rows_left_out"`
}

type row struct {
	Day             string
	Provider, Model *string
	Events          int64
	Before          json.Number `json:"before_usd"`
	After           json.Number `json:"after_usd"`
	Difference      json.Number `json:"difference_usd"`
	UnpricedBefore  int64       `json:"unpriced_before"`
	UnpricedAfter   int64       `json:"unpriced_after"`
}

// reprice asks for a job and waits until it is done.
func (l *ledger) reprice(body string) *result {
	l.t.Helper()
	return l.await(l.begin(body)).Result
}

func (l *ledger) begin(body string) (id string) {
	l.t.Helper()
	var j jobReply
	if err := json.Unmarshal(l.ask(http.MethodPost, "/v1/prices/reprice", body, http.StatusAccepted), &j); err != nil {
		l.t.Fatal(err)
	}
	return j.ID
}

func (l *ledger) await(id string) jobReply {
	l.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var j jobReply
		l.get("/v1/jobs/"+id, &j)
		if j.State == "done" {
			return j
		}
		if j.State == "failed" || time.Now().After(deadline) {
			l.t.Fatalf("the job is %+v, %v", j, j.Error)
		}
	}
}

// metricValue returns a metric of the runner by its name.
func metricValue(t *testing.T, r *runner, name string) prometheus.Collector {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			value := family.GetMetric()[0].GetCounter().GetValue()
			c := prometheus.NewCounter(prometheus.CounterOpts{Name: "value", Help: "-"})
			c.Add(value)
			return c
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}
