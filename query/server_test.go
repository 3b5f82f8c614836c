package query_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// password of every user in the tests.
const password = "correct horse battery"

// world is a running query tier with two accounts that know nothing of each
// other.
type world struct {
	t    testing.TB
	pool *pgxpool.Pool
	// tier is the pool that the server has, signed in as outlay_query.
	tier     *pgxpool.Pool
	url      string
	now      time.Time
	registry *prometheus.Registry
	server   *query.Server
	private  ed25519.PrivateKey
	keys     *auth.Keys
	alice    *person
	bob      *person
}

// person is the owner of an account, signed in.
type person struct {
	*world
	account schema.ID
	user    account.User
	token   string
}

func newWorld(t testing.TB, pool *pgxpool.Pool) *world {
	t.Helper()
	return newWorldWith(t, pool, func(*query.Config) {})
}

// newWorldWith lets change set up the server in another way.
func newWorldWith(t testing.TB, pool *pgxpool.Pool, change func(*query.Config)) *world {
	t.Helper()
	w := newServer(t, pool, change)
	w.alice, w.bob = w.person("alice@example.com"), w.person("bob@example.com")
	return w
}

// newServer is a world without anybody in it.
func newServer(t testing.TB, pool *pgxpool.Pool, change func(*query.Config)) *world {
	t.Helper()
	// A whole second, so that times come back as they went in.
	w := &world{t: t, pool: pool, now: time.Now().UTC().Truncate(time.Second), registry: prometheus.NewRegistry()}
	w.private, w.keys = newKeys(t)
	w.tier = schematest.As(t, pool, "outlay_query")
	config := query.Config{
		Pool: w.tier, Keys: w.keys, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: w.registry,
		Mail: true, Resolver: names{}, Limits: query.DefaultLimits(),
	}
	config.Limits.Creations = 10_000 // Tests make much in a minute.
	change(&config)
	server, err := query.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.server = server
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { server.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	w.url = front.URL
	return w
}

// newKeys returns a signing key and the Keys that hold it.
func newKeys(t testing.TB) (ed25519.PrivateKey, *auth.Keys) {
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
	return private, keys
}

// person makes an account with an owner and signs the owner in.
func (w *world) person(email string) *person {
	w.t.Helper()
	store := account.NewStore(w.pool, time.Now)
	a, err := store.CreateAccount(w.t.Context(), "Account of "+email, account.Enterprise)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &person{world: w, account: a.ID}
	p.user = p.colleague(email, account.Owner)
	p.token = w.tokenFor(p.user)
	return p
}

// tokenFor returns a token as signing in would answer it, without the time that
// checking a password takes.
func (w *world) tokenFor(user account.User) string {
	w.t.Helper()
	tokens := auth.NewTokens(w.keys, "outlay", time.Hour, time.Now)
	token, _, err := tokens.Issue(auth.Principal{UserID: user.ID, AccountID: user.AccountID, Role: user.Role})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// passwordHash is the hash of password.
var passwordHash = sync.OnceValues(func() (string, error) {
	return account.NewHasher(1).Hash(context.Background(), password)
})

// colleague makes another user of the person's account.
func (p *person) colleague(email string, role account.Role) account.User {
	p.t.Helper()
	hash, err := passwordHash()
	if err != nil {
		p.t.Fatal(err)
	}
	user, err := account.NewStore(p.pool, time.Now).CreateUser(p.t.Context(), p.account, email, hash, role)
	if err != nil {
		p.t.Fatal(err)
	}
	return user
}

// answer is what the server said, already held to the OpenAPI document.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   []byte
}

// get asks with the person's token.
func (p *person) get(path string) *answer {
	p.t.Helper()
	return p.send(p.token, http.MethodGet, path, "")
}

// send sends one request. Every answer is checked against the OpenAPI document.
func (w *world) send(token, method, path, body string) *answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return w.do(request)
}

func (w *world) do(request *http.Request) *answer {
	w.t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &answer{t: w.t, what: request.Method + " " + request.URL.RequestURI(), status: response.StatusCode, header: response.Header, body: body}
	holdToDocument(w.t, request, a)
	return a
}

// decode reads the body of an answer that has to have this status.
func (a *answer) decode(status int, v any) {
	a.t.Helper()
	a.want(status)
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if err := decoder.Decode(v); err != nil {
		a.t.Fatalf("%s: %v in %s", a.what, err, a.body)
	}
}

func (a *answer) want(status int) {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s = %d, want %d: %s", a.what, a.status, status, a.body[:min(len(a.body), 1000)])
	}
}

// refusal is the part of a problem that tests look at.
type refusal struct {
	Title  string
	Code   string
	Detail string
	Errors []schema.Fault
}

// refused checks the status and returns the problem.
func (a *answer) refused(status int) refusal {
	a.t.Helper()
	var r refusal
	a.decode(status, &r)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Errorf("%s: Content-Type %q", a.what, got)
	}
	return r
}

// store inserts events as the processor would.
func (w *world) store(events ...schema.Event) {
	w.t.Helper()
	insertEvents(w.t.Context(), w.t, w.pool, events)
}

// noteParts adds to session_parts what the processor adds with a batch.
const noteParts = `
INSERT INTO session_parts (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
SELECT account_id, session_id, array_agg(agent), array_agg(user_id), count(*), count(*) FILTER (WHERE status = 'error'),
	sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), min(ts), max(ts)
FROM events WHERE event_id = ANY ($1) AND NOT session_implicit GROUP BY account_id, session_id`

// noteIntake adds to intake what the processor adds with a batch without duplicates.
const noteIntake = `
INSERT INTO intake AS i (account_id, hour, accepted, stored, duplicates, dead_letters, first_ts, last_ts)
SELECT account_id, date_bin('1 hour', received_at, timestamptz '2000-01-01 00:00:00+00'), count(*), count(*), 0, 0, min(ts), max(ts)
FROM events WHERE event_id = ANY ($1) GROUP BY 1, 2
ON CONFLICT (account_id, hour) DO UPDATE SET accepted = i.accepted + excluded.accepted, stored = i.stored + excluded.stored,
	first_ts = least(i.first_ts, excluded.first_ts), last_ts = greatest(i.last_ts, excluded.last_ts)`

func insertEvents(ctx context.Context, t testing.TB, pool *pgxpool.Pool, events []schema.Event) {
	t.Helper()
	columns := []string{
		"ts", "account_id", "event_id", "received_at", "agent", "provider", "model", "session_id", "session_implicit",
		"status", "error_type", "step", "user_id", "parent_event_id", "input_tokens", "output_tokens",
		"cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens", "latency_ms",
		"cost_nano_usd", "cost_source", "price_id", "cost_breakdown", "tags", "metadata", "idempotency_key",
		"kafka_partition", "kafka_offset",
	}
	rows := make([][]any, len(events))
	for i, e := range events {
		rows[i] = []any{
			e.Time, e.AccountID, e.ID, e.ReceivedAt, e.Agent, e.Provider, e.Model, e.SessionID, e.SessionImplicit,
			string(e.Status), orNull(e.ErrorType), orNull(e.Step), orNull(e.UserID), parentOrNull(e.Parent), e.InputTokens, e.OutputTokens,
			e.CacheReadTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.ReasoningTokens, latencyOrNull(e.LatencyMS),
			int64(e.Cost), string(e.Source), orNull(e.PriceID), jsonOrNull(e.Breakdown), e.Tags, jsonOrNull(e.Metadata), orNull(e.IdempotencyKey),
			0, int64(i),
		}
	}
	if _, err := pool.CopyFrom(ctx, []string{"events"}, columns, copyRows(rows)); err != nil {
		t.Fatal(err)
	}
	if err := schematest.SumEvents(ctx, pool); err != nil {
		t.Fatal(err)
	}
	ids := make([]schema.ID, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	for _, note := range []string{noteParts, noteIntake} {
		if _, err := pool.Exec(ctx, note, ids); err != nil {
			t.Fatal(err)
		}
	}
}

// newEvent returns an event of the person's account with every field set.
func (p *person) newEvent(change func(*schema.Event)) schema.Event {
	at := p.now.Add(-time.Minute)
	e := schema.Event{
		ID: schema.NewID(at), AccountID: p.account, Agent: "support-bot", Provider: "openai", Model: "gpt-4o",
		SessionID: "ses_one", Time: at, ReceivedAt: at.Add(time.Millisecond), InputTokens: 1200, OutputTokens: 350,
		CacheReadTokens: 200, CacheWriteTokens: 20, CacheWrite1hTokens: 2, ReasoningTokens: 50, LatencyMS: 640,
		Cost: 6_500_000, Source: schema.CostCalculated, PriceID: "openai/gpt-4o@2024-10-01", Status: schema.StatusOK,
		Breakdown: []byte(`[{"kind":"input","tokens":1200,"rate_usd_per_mtok":2.5,"cost_usd":0.003,"tier":"base","rule":"equals gpt-4o"}]`),
	}
	if change != nil {
		change(&e)
	}
	return e
}

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = checkDocumentCovered()
	}
	os.Exit(code)
}
