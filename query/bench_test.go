package query_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/schematest"
)

// BenchmarkReads measures each endpoint through HTTP beside the bare SQL that it
// runs, and what is kept up beside the same question put to the raw events, on the
// history of a fleet of 90 days. OUTLAY_BENCH_EVENTS is how many events that has;
// OUTLAY_BENCH_DATABASE names a migrated database in which it is kept from run to
// run.
func BenchmarkReads(b *testing.B) {
	r := newReads(b)
	b.Run("endpoint", r.endpoints)
	b.Run("raw", r.againstRaw)
	b.Run("storing", r.whileStoring)
}

// reads is a query tier on the history of a fleet.
type reads struct {
	*person
	address string
	fleet   fleet
	record  *recorder
	// bare runs what the server runs; plain only its selects. One connection for both
	// would plan anew each time, since the transactions have another search path.
	bare, plain *pgx.Conn
	client      *http.Client
}

const fleetAccount = "fleet of the benchmark"

func newReads(b *testing.B) *reads {
	b.Helper()
	address := os.Getenv("OUTLAY_BENCH_DATABASE")
	if address == "" {
		db := schematest.Database(b)
		b.Logf("database: %s", db.Edition)
		address = db.URL
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		b.Fatal("OUTLAY_BENCH_DATABASE is no URL of a database")
	}
	r := &reads{address: address, record: &recorder{}, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	cfg.ConnConfig.Tracer = r.record
	// As many as the query tier has.
	cfg.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	for _, conn := range []**pgx.Conn{&r.bare, &r.plain} {
		if *conn, err = pgx.Connect(b.Context(), address); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = (*conn).Close(context.Background()) })
	}
	// As in the transactions of the server.
	if _, err := r.plain.Exec(b.Context(), `SET plan_cache_mode = force_generic_plan; SET jit = off`); err != nil {
		b.Fatal(err)
	}
	events := sizeOf(b, "OUTLAY_BENCH_EVENTS", 200_000)
	r.fleet = fleet{
		from: time.Now().UTC().Truncate(24 * time.Hour).Add(-90 * 24 * time.Hour), to: time.Now().UTC(),
		events: events, sessions: max(1, events/100), agents: 200, models: 20, eachAgent: sizeOf(b, "OUTLAY_BENCH_MODELS", 3),
	}
	r.fleet.account = schema.ID{6: 0x70, 8: 0x80, 15: 15}
	added, err := pool.Exec(b.Context(), `INSERT INTO accounts (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, r.fleet.account, fleetAccount)
	if err != nil {
		b.Fatal(err)
	}
	if added.RowsAffected() == 1 {
		r.fleet.store(b, pool)
	}
	r.fleet.cap(b, pool)
	r.person = newServer(b, pool, func(*query.Config) {}).ownerOf(r.fleet.account)
	r.server.AddEmpty()
	return r
}

// recorder notes the statements that a request runs.
type recorder struct {
	mu         sync.Mutex
	on         bool
	statements []statement
}

type statement struct {
	sql  string
	args []any
}

// TraceQueryStart is called by pgx.
func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.note(data.SQL, data.Args)
	return ctx
}

func (r *recorder) note(sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.statements = append(r.statements, statement{sql, slices.Clone(args)})
	}
}

// TraceQueryEnd is called by pgx.
func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart is called by pgx.
func (*recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery is called by pgx, for each statement of a batch.
func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.note(data.SQL, data.Args)
}

// TraceBatchEnd is called by pgx.
func (*recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// during returns the statements that run while f does.
func (r *recorder) during(f func()) []statement {
	set := func(on bool) []statement {
		r.mu.Lock()
		defer r.mu.Unlock()
		found := r.statements
		r.on, r.statements = on, nil
		return found
	}
	set(true)
	f()
	return set(false)
}

// ask sends a request and reads the answer to its end.
func (r *reads) ask(path string) time.Duration {
	r.t.Helper()
	took, _ := r.askAt(r.url + path)
	return took
}

// askAt is ask of any server; it returns how many bytes the answer has, too.
func (r *reads) askAt(address string) (took time.Duration, size int64) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	began := time.Now()
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	size, err = io.Copy(io.Discard, response.Body)
	took = time.Since(began)
	if err != nil || response.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s = %d: %v", address, response.StatusCode, err)
	}
	return took, size
}

// run runs statements one after the other and reads all rows, as bytes.
func (r *reads) run(conn *pgx.Conn, statements []statement) time.Duration {
	r.t.Helper()
	began := time.Now()
	for _, s := range statements {
		if strings.Contains(s.sql, ";") { // a transaction's begin, with its settings
			if _, err := conn.Exec(r.t.Context(), s.sql); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		rows, err := conn.Query(r.t.Context(), s.sql, s.args...)
		if err != nil {
			r.t.Fatalf("%v: %.300s", err, s.sql)
		}
		for rows.Next() {
			_ = rows.RawValues()
		}
		if rows.Close(); rows.Err() != nil {
			r.t.Fatalf("%v: %.300s", rows.Err(), s.sql)
		}
	}
	return time.Since(began)
}

// paths are the questions of the endpoints, with the addresses of real things.
func (r *reads) paths() []struct{ name, path string } {
	month := "from=" + url.QueryEscape(r.fleet.to.Add(-30*24*time.Hour).Format(time.RFC3339)) + "&to=" + url.QueryEscape(r.fleet.to.Format(time.RFC3339))
	half := r.fleet.from.Add(45 * 24 * time.Hour).Format(time.DateOnly)
	begin := r.fleet.from.Format(time.DateOnly)
	event := r.first("/v1/events?limit=1&agent=agent-007").Data[0].EventID
	later := func(path string) string { return path + "&cursor=" + *r.first(path).NextCursor }
	paths := []struct{ name, path string }{
		{"events", "/v1/events"},
		{"events-later", later("/v1/events?limit=500")},
		{"events-agent", "/v1/events?agent=agent-007"},
		{"event", "/v1/events/" + event},
		{"agents-month", "/v1/agents?limit=50&" + month},
		{"agent", "/v1/agents/agent-007?" + month},
		{"session", "/v1/sessions/ses_0000000007-conversation"},
		{"daily-30", "/v1/analytics/daily"},
		{"daily-45-by-agent", "/v1/analytics/daily?group_by=agent&from=" + begin + "&to=" + half},
		{"daily-30-kolkata", "/v1/analytics/daily?timezone=Asia/Kolkata"},
		{"hourly-48", "/v1/analytics/hourly"},
		{"summary", "/v1/analytics/summary"},
		{"budgets", "/v1/budgets"},
		{"audit", "/v1/audit"},
		{"api-keys", "/v1/api-keys"},
		{"users", "/v1/users"},
		{"me", "/v1/auth/me"},
		{"empty", query.EmptyPath},
	}
	for _, sort := range []string{"started_at", "ended_at", "cost_usd", "events", "duration_ms"} {
		path := "/v1/sessions?sort=" + sort + "&" + month
		paths = append(paths, []struct{ name, path string }{{"sessions-" + sort, path}, {"sessions-" + sort + "-later", later(path)}}...)
	}
	return paths
}

// first returns the first page of a list.
func (r *reads) first(path string) (page eventPage) {
	r.t.Helper()
	r.get(path).decode(http.StatusOK, &page)
	return page
}

// Each endpoint is asked this often, less often when that takes longer than patience.
const (
	rounds   = 21
	fewest   = 5
	patience = 4 * time.Second
)

// endpoints lets HTTP and SQL take turns, because the machine's speed changes with
// the hour. "selects" are the statements that answer, on a connection of the owner of
// the tables, their rows read as bytes; "sql" are all statements of the server with
// their transactions; "bare" is a handler of net/http that checks nothing, runs selects
// and sends as many bytes as the server did: what is left of http beside it is ours.
// The endpoint "empty" shows a token and asks for nothing.
func (r *reads) endpoints(b *testing.B) {
	handler := &bareHandler{reads: r}
	front := httptest.NewServer(handler)
	b.Cleanup(front.Close)
	for _, p := range r.paths() {
		b.Run(p.name, func(b *testing.B) {
			r.t = b
			_, handler.bytes = r.askAt(r.url + p.path)
			statements := r.record.during(func() { r.ask(p.path) })
			handler.selects = slices.DeleteFunc(slices.Clone(statements), func(s statement) bool {
				return strings.HasPrefix(strings.ToLower(s.sql), "begin") || strings.EqualFold(s.sql, "commit") || strings.Contains(s.sql, "set_config")
			})
			var served, sql, plain, bare []time.Duration
			for b.Loop() {
				for began := time.Now(); len(served) < fewest || len(served) < rounds && time.Since(began) < patience; {
					served = append(served, r.ask(p.path))
					sql = append(sql, r.run(r.bare, statements))
					plain = append(plain, r.run(r.plain, handler.selects))
					took, _ := r.askAt(front.URL)
					bare = append(bare, took)
				}
			}
			showMedian(b, "http", served)
			showMedian(b, "sql", sql)
			showMedian(b, "selects", plain)
			showMedian(b, "bare", bare)
			b.ReportMetric(ratio(served, sql), "http/sql")
			b.ReportMetric(ratio(served, plain), "http/selects")
			b.ReportMetric(ratio(served, bare), "http/bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bareHandler answers as many bytes as an endpoint does, after the same selects. It is
// asked one thing after the other.
type bareHandler struct {
	*reads
	selects []statement
	bytes   int64
}

func (h *bareHandler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.run(h.plain, h.selects)
	_, _ = w.Write(make([]byte, h.bytes))
}

func median(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)/2]
}

func ratio(a, b []time.Duration) float64 { return float64(median(a)) / float64(median(b)) }

func showMedian(b *testing.B, what string, took []time.Duration) {
	b.Helper()
	b.ReportMetric(float64(median(took).Microseconds())/1000, what+"-ms")
}

// The same questions, put to the raw events.
const (
	rawDaily = `
SELECT date_bin('1 day', ts, timestamptz '2000-01-01 00:00:00+00') AS bucket, agent, count(*), count(*) FILTER (WHERE status = 'error'),
	count(*) FILTER (WHERE cost_source = 'unpriced'), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_nano_usd),
	count(latency_ms), sum(latency_ms), max(latency_ms), sum(latency_histogram(latency_ms))
FROM events WHERE account_id = $1 AND ts >= $2 AND ts < $3 GROUP BY 1, 2 ORDER BY 1, 2`

	rawAgents = `
SELECT agent, count(*), count(*) FILTER (WHERE status = 'error'), count(*) FILTER (WHERE cost_source = 'unpriced'),
	sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_nano_usd), count(latency_ms), sum(latency_ms),
	max(latency_ms), sum(latency_histogram(latency_ms)), count(DISTINCT session_id), min(ts), max(ts), array_agg(DISTINCT model)
FROM events WHERE account_id = $1 AND ts >= $2 AND ts < $3 GROUP BY agent ORDER BY sum(cost_nano_usd) DESC LIMIT 50`

	rawSessions = `
SELECT session_id, array_agg(DISTINCT agent), count(*), count(*) FILTER (WHERE status = 'error'), sum(input_tokens), sum(output_tokens),
	sum(cost_nano_usd), min(ts), max(ts)
FROM events WHERE account_id = $1 AND ts >= $2 AND ts < $3 GROUP BY session_id ORDER BY %s DESC, session_id DESC LIMIT 51`
)

// againstRaw compares what is kept up with grouping the raw events.
func (r *reads) againstRaw(b *testing.B) {
	r.t = b
	f, month := &r.fleet, 30*24*time.Hour
	half := f.from.Add(45 * 24 * time.Hour)
	paths := map[string]string{}
	for _, p := range r.paths() {
		paths[p.name] = p.path
	}
	otherHalf := "/v1/analytics/daily?group_by=agent&from=" + half.Format(time.DateOnly) + "&to=" + f.from.Add(90*24*time.Hour).Format(time.DateOnly)
	b.Run("daily-90-by-agent", func(b *testing.B) {
		r.compare(b, statement{rawDaily, []any{f.account, f.from, f.from.Add(90 * 24 * time.Hour)}}, paths["daily-45-by-agent"], otherHalf)
	})
	b.Run("agents-month", func(b *testing.B) {
		r.compare(b, statement{rawAgents, []any{f.account, f.to.Add(-month), f.to}}, paths["agents-month"])
	})
	for sort, by := range map[string]string{
		"started_at": "min(ts)", "ended_at": "max(ts)", "cost_usd": "sum(cost_nano_usd)", "events": "count(*)", "duration_ms": "max(ts) - min(ts)",
	} {
		for _, page := range []string{"", "-later"} {
			b.Run("sessions-month-"+sort+page, func(b *testing.B) {
				raw := statement{fmt.Sprintf(rawSessions, by), []any{f.account, f.to.Add(-month), f.to}}
				r.compare(b, raw, paths["sessions-"+sort+page])
			})
		}
	}
}

// compare measures answers through HTTP, all of them together, against one
// statement.
func (r *reads) compare(b *testing.B, raw statement, paths ...string) {
	r.t = b
	var served, grouped []time.Duration
	all := func() (took time.Duration) {
		for _, path := range paths {
			took += r.ask(path)
		}
		return took
	}
	all()
	for b.Loop() {
		for len(grouped) < 3 {
			for range 7 {
				served = append(served, all())
			}
			grouped = append(grouped, r.run(r.bare, []statement{raw}))
		}
	}
	showMedian(b, "http", served)
	showMedian(b, "raw", grouped)
	b.ReportMetric(ratio(grouped, served), "raw/http")
	b.ReportMetric(0, "ns/op")
}
