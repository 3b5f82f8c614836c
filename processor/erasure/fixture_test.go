package erasure

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/wire"
)

// house is an installation: the sink stores events, the query tier is asked over HTTP, and a runner does the jobs. Only in this
// test the two tiers meet.
type house struct {
	t    *testing.T
	db   *schematest.DB
	url  string
	keys *auth.Keys
	sink *timescale.Sink
	next int64
	now  time.Time
}

const topic = "topic"

func newHouse(t *testing.T, db *schematest.DB) *house {
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
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := query.New(query.Config{Pool: schematest.As(t, db.Pool, "outlay_query"), Keys: keys, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	h := &house{t: t, db: db, url: front.URL, keys: keys, sink: timescale.New(db.Pool, topic), now: time.Now().UTC().Truncate(time.Second)}
	if _, err := timescale.NewPositions(db.Pool, topic).Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	if db.Edition == migrations.Community {
		h.exec(`SELECT alter_job(job_id, scheduled => false) FROM timescaledb_information.jobs WHERE job_id >= 1000`)
	}
	h.work(log)
	return h
}

// work runs a runner until the end of the test.
func (h *house) work(log *slog.Logger) {
	h.t.Helper()
	runner := jobs.New(jobs.Deps{Pool: schematest.As(h.t, h.db.Pool, "outlay_processor"), Metrics: prometheus.NewRegistry(), Log: log})
	Register(Deps{Pool: schematest.As(h.t, h.db.Pool, "outlay_processor"), Jobs: runner, Now: time.Now})
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("Run = %v", err)
		}
	})
}

func (h *house) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

// completeNow notes that everything accepted until well after now is stored.
func (h *house) completeNow() {
	h.t.Helper()
	h.exec(`UPDATE kafka_offsets SET complete_until = now() + interval '1 hour'`)
}

// foldAndRefresh folds parts of sessions, and refreshes.
func (h *house) foldAndRefresh() {
	h.t.Helper()
	h.exec(`SELECT fold_sessions(1000000)`)
	h.refresh()
}

// refresh brings the aggregates up to date, and what is older than a week into the columnstore.
func (h *house) refresh() {
	h.t.Helper()
	if h.db.Edition != migrations.Community {
		return
	}
	conn, err := h.db.Pool.Acquire(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Release()
	if _, err := upkeep.RefreshRollups(h.t.Context(), conn.Conn(), time.Now()); err != nil {
		h.t.Fatal(err)
	}
	h.exec(`SELECT compress_chunk(c, if_not_compressed => true) FROM show_chunks('events', older_than => interval '7 days') c`)
}

// person is the owner of an account.
type person struct {
	*house
	account schema.ID
	token   string
}

func (h *house) person(name string) *person {
	h.t.Helper()
	store := account.NewStore(h.db.Pool, time.Now)
	a, err := store.CreateAccount(h.t.Context(), name, account.Enterprise)
	if err != nil {
		h.t.Fatal(err)
	}
	user, err := store.CreateUser(h.t.Context(), a.ID, name+"@example.com", "x", account.Owner)
	if err != nil {
		h.t.Fatal(err)
	}
	token, _, err := auth.NewTokens(h.keys, "outlay", time.Hour, time.Now).
		Issue(auth.Principal{UserID: user.ID, AccountID: a.ID, Role: account.Owner})
	if err != nil {
		h.t.Fatal(err)
	}
	return &person{h, a.ID, token}
}

// event is event number i of a session and a user, with content everywhere that states whose it is.
func (p *person) event(i int, session, user string, age time.Duration) schema.Event {
	at := p.now.Add(-age).Add(time.Duration(i) * time.Second)
	e := schema.Event{
		ID: schema.NewID(at), AccountID: p.account, Agent: fmt.Sprintf("agent-%d", i%3), Model: fmt.Sprintf("model-%d", i%4), Provider: "openai",
		SessionID: schema.SessionID(session), Time: at, ReceivedAt: at.Add(time.Millisecond), InputTokens: int64(100 + i), OutputTokens: int64(i),
		LatencyMS: int64(10 * i), Cost: schema.NanoUSD(1_000_000_007 + i), Source: schema.CostCalculated, Status: schema.StatusOK, PriceID: "p",
		Breakdown: wire.AppendBreakdown(nil, &price.Quote{Rule: "equals m", Parts: price.Parts{{Tokens: 1}}}), UserID: user, Step: "step of " + user, Tags: []string{"tag of " + user, session},
		Metadata: []byte(`{"text":"said by ` + user + ` in ` + session + `"}`), IdempotencyKey: fmt.Sprintf("key %d of %s in %s", i, user, session),
	}
	if i%2 == 0 {
		e.Status, e.ErrorType, e.Source = schema.StatusError, "error of "+user, schema.CostUnpriced
	}
	if session == "" {
		e.SessionID, e.SessionImplicit = schema.ImplicitSessionID(e.ID), true
	}
	e.ID = schema.KeyedEventID(p.account, e.IdempotencyKey)
	return e
}

// store stores events as the processor does.
func (h *house) store(events ...schema.Event) {
	h.t.Helper()
	items := make([]timescale.Item, len(events))
	for i := range events {
		items[i] = timescale.Item{Offset: h.next + int64(i), Event: events[i]}
	}
	end := h.next + int64(len(events))
	if _, err := h.sink.Save(h.t.Context(), []timescale.Span{{First: h.next, Next: end}}, items); err != nil {
		h.t.Fatal(err)
	}
	h.next = end
}

// ask returns the body of an answer that has to have this status.
func (p *person) ask(method, path string, status int) []byte {
	p.t.Helper()
	return schematest.Ask(p.t, method, p.url+path, p.token, "", status)
}

// get decodes an answer with every digit of its numbers.
func (p *person) get(path string) any {
	p.t.Helper()
	return p.decode(p.ask(http.MethodGet, path, http.StatusOK))
}

func (p *person) decode(text []byte) (v any) {
	p.t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		p.t.Fatalf("%.200s: %v", text, err)
	}
	return v
}

// shownJob is a job as those who asked for it see it.
type shownJob struct {
	ID, State string
	Error     *string
	Args      json.RawMessage
	Result    struct {
		Events, Sessions int64
		SessionID        string `json:"session_id"`
	}
}

// erase asks for an erasure and returns the job.
func (p *person) erase(path string) (j shownJob) {
	p.t.Helper()
	if err := json.Unmarshal(p.ask(http.MethodDelete, path, http.StatusAccepted), &j); err != nil {
		p.t.Fatal(err)
	}
	return j
}

// await waits until a job has ended well.
func (p *person) await(id string) (j shownJob) {
	p.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		if err := json.Unmarshal(p.ask(http.MethodGet, "/v1/jobs/"+id, http.StatusOK), &j); err != nil {
			p.t.Fatal(err)
		}
		switch {
		case j.State == "done":
			return j
		case j.State == "failed", time.Now().After(deadline):
			p.t.Fatalf("the job is not done: %+v", j)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// figures are what every endpoint answers, without names of sessions and without content.
func (p *person) figures() map[string]any {
	p.t.Helper()
	span := "from=" + p.now.Add(-40*24*time.Hour).Format(time.RFC3339) + "&to=" + p.now.Add(time.Hour).Format(time.RFC3339)
	all := map[string]any{}
	for _, path := range []string{
		"/v1/analytics/daily?group_by=agent,model,provider&fill=false&" + span, "/v1/analytics/hourly?timezone=Asia/Kolkata&fill=false&" + span,
		"/v1/analytics/summary?" + span, "/v1/agents?" + span, "/v1/agents/agent-1?" + span, "/v1/prices/unpriced?" + span,
		"/v1/integrity?verify=true&" + span, "/v1/budgets",
	} {
		all[path] = without(p.get(path), "complete_until", "projected_usd")
	}
	sessions := without(p.get("/v1/sessions?include_implicit=true&limit=500"), "id").(map[string]any)["data"].([]any)
	all["sessions"] = sorted(sessions)
	var events []any
	lines := bufio.NewScanner(bytes.NewReader(p.ask(http.MethodGet, "/v1/events/export?format=ndjson", http.StatusOK)))
	for lines.Scan() {
		events = append(events, without(p.decode(lines.Bytes()), "session_id", "user_id", "tags", "metadata", "step", "error_type", "idempotency_key"))
	}
	all["events"] = sorted(events)
	return all
}

// without removes fields wherever they are.
func without(v any, fields ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, f := range fields {
			delete(v, f)
		}
		for _, inner := range v {
			without(inner, fields...)
		}
	case []any:
		for _, inner := range v {
			without(inner, fields...)
		}
	}
	return v
}

// sorted are values as JSON in an order that depends on nothing else.
func sorted(values []any) []string {
	var lines []string
	for _, v := range values {
		text, _ := json.Marshal(v)
		lines = append(lines, string(text))
	}
	slices.Sort(lines)
	return lines
}

const selectTables = `
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname = 'public'`

// rowsWith returns the tables that have a text anywhere in a row of this account, or of no account, and in how many rows.
func (p *person) rowsWith(text string, others ...*person) map[string]int {
	p.t.Helper()
	rows, _ := p.db.Pool.Query(p.t.Context(), selectTables)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 20 {
		p.t.Fatalf("%d tables, %v", len(tables), err)
	}
	found := map[string]int{}
	for _, table := range tables {
		sql := `SELECT count(*) FROM ` + table + ` AS x WHERE strpos(x::text, $1) > 0`
		for _, o := range others {
			sql += fmt.Sprintf(` AND strpos(x::text, '%x-%x-%x-%x-%x') = 0`, o.account[0:4], o.account[4:6], o.account[6:8], o.account[8:10], o.account[10:])
		}
		var n int
		if err := p.db.Pool.QueryRow(p.t.Context(), sql, text).Scan(&n); err != nil {
			p.t.Fatalf("%s: %v", table, err)
		}
		if n > 0 {
			found[strings.TrimPrefix(table, "public.")] = n
		}
	}
	return found
}
