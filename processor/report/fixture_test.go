package report

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// ledger is an account in a database, to which events are added.
type ledger struct {
	t       testing.TB
	pool    *pgxpool.Pool
	account schema.ID
}

func newLedger(t testing.TB, pool *pgxpool.Pool, name string) *ledger {
	t.Helper()
	l := &ledger{t, pool, schema.NewID(time.Now())}
	l.exec(`INSERT INTO accounts (id, name) VALUES ($1, $2)`, l.account, name)
	// Everything that was accepted is stored.
	l.exec(`INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until) VALUES ('t', 0, 0, '2100-01-01') ON CONFLICT DO NOTHING`)
	l.exec(`UPDATE rollup_progress SET complete_until = '2100-01-01'`)
	return l
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatal(err)
	}
}

// call is one event.
type call struct {
	at                     time.Time
	agent, provider, model string
	in, out, cost          int64
	source, price          string
	failed                 bool
}

const breakdown = `[{"kind":"input","tokens":1,"rate_usd_per_mtok":2.5,"cost_usd":0.1,"tier":"base","rule":"equals m"},` +
	`{"kind":"output","tokens":1,"rate_usd_per_mtok":10,"cost_usd":0.1,"tier":"base","rule":"equals m"}]`

// store adds events as the processor would, and brings the aggregates up to date.
func (l *ledger) store(calls ...call) {
	l.t.Helper()
	columns := []string{
		"ts", "account_id", "event_id", "received_at", "agent", "provider", "model", "session_id", "session_implicit", "status",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens",
		"cost_nano_usd", "cost_source", "price_id", "cost_breakdown", "kafka_partition", "kafka_offset",
	}
	rows := pgx.CopyFromSlice(len(calls), func(i int) ([]any, error) {
		c := &calls[i]
		status := "ok"
		if c.failed {
			status = "error"
		}
		var price, parts any
		if c.price != "" {
			price, parts = c.price, breakdown
		}
		return []any{
			c.at, l.account, schema.NewID(c.at), c.at, c.agent, c.provider, c.model, "ses_x", false, status,
			c.in, c.out, c.in / 4, int64(0), int64(0), int64(0), c.cost, c.source, price, parts, int32(0), int64(i),
		}, nil
	})
	if _, err := l.pool.CopyFrom(l.t.Context(), pgx.Identifier{"events"}, columns, rows); err != nil {
		l.t.Fatal(err)
	}
	if err := schematest.SumEvents(l.t.Context(), l.pool); err != nil {
		l.t.Fatal(err)
	}
}

// refresh brings the rollups up to date, as a processor does every few seconds.
func (l *ledger) refresh() {
	l.t.Helper()
	conn, err := l.pool.Acquire(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Release()
	if _, err := upkeep.RefreshRollups(l.t.Context(), conn.Conn(), time.Now()); err != nil {
		l.t.Fatal(err)
	}
}

// fleet is a believable month: a few agents, some models, a weekly rhythm. The same seed gives the same.
func fleet(seed uint64, from time.Time, days, agents, perDay int) []call {
	random := rand.New(rand.NewPCG(seed, seed))
	models := []struct {
		provider, model string
		in, out         int64
	}{{"openai", "gpt-4o", 2500, 10000}, {"anthropic", "claude-sonnet-4", 3000, 15000}, {"google", "gemini-2.5-pro", 1250, 10000}, {"openai", "gpt-4o-mini", 150, 600}}
	var calls []call
	for d := range days {
		start := from.AddDate(0, 0, d)
		n := perDay
		if wd := start.Weekday(); wd == time.Saturday || wd == time.Sunday {
			n /= 3
		}
		for i := range n {
			m := models[(random.IntN(4)+i)%4]
			c := call{
				at:       start.Add(time.Duration(random.IntN(86_400_000)) * time.Millisecond),
				agent:    fmt.Sprintf("agent-%04d", int(float64(agents)*random.Float64()*random.Float64())),
				provider: m.provider, model: m.model, in: int64(random.IntN(9000)), out: int64(random.IntN(1500)),
				source: "calculated", price: m.provider + "/" + m.model + "@2025-05-01", failed: random.IntN(50) == 0,
			}
			c.cost = c.in*m.in + c.out*m.out
			if random.IntN(40) == 0 {
				c.model, c.price, c.source, c.cost = "in-house-7b", "", "unpriced", 0
			}
			calls = append(calls, c)
		}
	}
	return calls
}

// request is a report of the ledger's account, asked for at a fixed time.
func (l *ledger) request(change func(*report.Report)) *report.Report {
	r := &report.Report{
		Request:   report.Request{From: november, To: november.AddDate(0, 1, 0), Timezone: "UTC"},
		AccountID: l.account, ID: schema.ID{1}, CreatedAt: time.Date(2025, 12, 1, 6, 0, 0, 123456000, time.UTC),
	}
	if change != nil {
		change(r)
	}
	r.Normalise()
	return r
}

var november = time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)

func (l *ledger) read(r *report.Report) *Statement {
	l.t.Helper()
	s, err := Read(l.t.Context(), l.pool, r, r.CreatedAt)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func draw(t testing.TB, s *Statement) []byte {
	t.Helper()
	pdf, err := Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return pdf
}

// pdfTool runs one of poppler's programs on a document. Without poppler the test is skipped, except where it has to be there.
func pdfTool(t testing.TB, pdf []byte, tool string, args ...string) string {
	t.Helper()
	path := need.Program(t, tool)
	file := filepath.Join(t.TempDir(), "report.pdf")
	if err := os.WriteFile(file, pdf, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append(args, file)...)
	if tool == "pdftotext" {
		cmd.Args = append(cmd.Args, "-")
	}
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("%s: %v %s", tool, err, complaints.String())
	}
	return out.String()
}

// text is what poppler reads in a document, line by line.
func text(t testing.TB, pdf []byte) []string {
	t.Helper()
	return strings.Split(pdfTool(t, pdf, "pdftotext", "-layout"), "\n")
}

func sum256(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// show writes a document to where OUTLAY_SHOW_REPORTS names, to be looked at.
func show(t testing.TB, name string, pdf []byte) {
	t.Helper()
	if dir := os.Getenv("OUTLAY_SHOW_REPORTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".pdf"), pdf, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lock guards what the subtests of editions compare with each other.
var lock sync.Mutex
