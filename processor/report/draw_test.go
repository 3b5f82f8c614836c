package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
)

// The same rows and the same request give the same bytes, in every edition, whenever they are drawn.
func TestSameDataSameBytes(t *testing.T) {
	t.Parallel()
	calls := fleet(1, november.AddDate(0, -1, 0), 61, 40, 120)
	sums := map[string]string{}
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db.Pool, "Müller & Søn Ltd.")
		// Only the account's id differs between databases.
		l.exec(`UPDATE accounts SET id = '01900000-0000-7000-8000-000000000001' WHERE id = $1`, l.account)
		if err := db.Pool.QueryRow(t.Context(), `SELECT id FROM accounts`).Scan(&l.account); err != nil {
			t.Fatal(err)
		}
		l.store(calls...)
		l.refresh()
		l.budgets()
		r := l.request(func(r *report.Report) { r.Title, r.Timezone = "November spend", "Europe/Berlin" })
		first, again := l.read(r), l.read(r)
		pdf := draw(t, first)
		show(t, "month-"+string(db.Edition), pdf)
		for i, other := range [][]byte{draw(t, first), draw(t, again)} {
			if !bytes.Equal(pdf, other) {
				t.Errorf("drawing number %d gives other bytes: SHA-256 %s and %s", i+2, sum256(pdf), sum256(other))
			}
		}
		if !bytes.Equal(WriteCSV(first), WriteCSV(again)) {
			t.Error("the CSV of the same rows differs")
		}
		t.Logf("SHA-256 %s, %d bytes", sum256(pdf), len(pdf))
		lock.Lock()
		defer lock.Unlock()
		sums[sum256(pdf)] = string(db.Edition)
		if len(sums) != 1 {
			t.Errorf("editions give different documents: %v", sums)
		}
	})
}

// budgets sets two caps, of which one has refused something.
func (l *ledger) budgets() {
	l.t.Helper()
	l.exec(`INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone)
		VALUES ($1, '', 500000000000, 'month', 'UTC'), ($1, 'agent-0003', 2500000000, 'day', 'UTC')`, l.account)
	l.exec(`INSERT INTO refused_events (account_id, agent, model, provider, bucket, events, input_tokens, output_tokens, cost_nano_usd)
		VALUES ($1, 'agent-0003', 'gpt-4o', 'openai', $2, 120, 1000, 1000, 1234567890)`, l.account, november.AddDate(0, 0, 3))
	l.exec(`INSERT INTO budget_resets (account_id, agent, at, period_start, period_end, epoch, spent_nano_usd) VALUES ($1, 'agent-0003', $2::timestamptz, $2::timestamptz, $2::timestamptz + interval '1 day', 1, 5)`, l.account, november.AddDate(0, 0, 3))
}

// A period without events, and one with a single agent, give a document that shows it.
func TestSmallReports(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	empty := newLedger(t, db.Pool, "Empty")
	pdf := draw(t, empty.read(empty.request(nil)))
	show(t, "empty", pdf)
	wantText(t, pdf, "$0.00", "Nothing was recorded in this period.", "No spending caps are set.",
		"Every event with tokens had a price.", "Page 1 of ")

	one := newLedger(t, db.Pool, "One")
	one.store(call{at: november.Add(36 * time.Hour), agent: "solo", provider: "openai", model: "gpt-4o", in: 10, out: 5, cost: 1_000_000, source: "calculated", price: "p"})
	pdf = draw(t, one.read(one.request(func(r *report.Report) { r.Agents = []string{"solo"} })))
	show(t, "one", pdf)
	wantText(t, pdf, "solo", "<$0.01", "Only 1 agent: solo", "1 agent", "100.0%")
}

// wantText wants these in the text that poppler reads.
func wantText(t *testing.T, pdf []byte, parts ...string) {
	t.Helper()
	all := strings.Join(text(t, pdf), "\n")
	for _, part := range parts {
		if !strings.Contains(all, part) {
			t.Errorf("the document lacks %q:\n%s", part, all)
		}
	}
}

// hostile are names that have broken documents, tables and spreadsheets.
func hostile() []string {
	return []string{
		"🤖 agent 🚀", "👩‍👩‍👧‍👦 family", "invalid \xff\xfe utf-8", "שלום-סוכן 42", "وكيل الدعم", "客服机器人", "請求エージェント", "サポート", "고객지원", "한글.bot v2 (漢字)", "👩🏽‍💻", "ผู้ช่วย", "агент-7", "πράκτορας",
		strings.Repeat("W", 200), strings.Repeat("long name ", 20), "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", " =1", "＝1",
		"a\u202eb-reversed", "zero\u200bwidth", "bell\a", "new\nline", "null\x00", "\"quoted\", comma", "<script>alert(1)</script>", "{nb} (page) \\(esc\\)",
		"e\u0301\u0302\u0303 marks", "\U0010ffff", "\ufffe\uffff", "\ud7ff", "   ", "\u2028", "%s%n%d", "…", "٣٤٥", "a/b?c#d", strings.Repeat("א", 200), strings.Repeat("🧨", 50),
	}
}

// hostileStatement has every hostile name as agent, model, provider, account and title in turn.
func hostileStatement(names []string) *Statement {
	s := &Statement{
		Request:   report.Request{Title: names[0], From: november, To: november.AddDate(0, 0, 2), Timezone: "UTC", Agents: names, GroupBy: report.ByAgent},
		AccountID: "acc_x", AccountName: names[len(names)-1], ReportID: "rpt_x", GeneratedAt: november, Complete: true,
		Days: []Day{{Start: november}, {Start: november.AddDate(0, 0, 1)}},
	}
	for i, name := range names {
		l := Line{Agent: name}
		l.Events, l.Unpriced = int64(i), 1
		l.Cost = amountOf(int64(i) * 1e9)
		s.ByAgent = append(s.ByAgent, l)
		l.Agent, l.Model, l.Provider = "", name, names[len(names)-1-i]
		s.ByModel = append(s.ByModel, l)
		s.Unpriced = append(s.Unpriced, l)
		s.Caps = append(s.Caps, Cap{Agent: name, Period: "day"})
		s.Prices = append(s.Prices, Price{ID: name, Rates: []Rate{{Kind: name, USDPerMillion: "1", Tier: name}}})
		s.Totals.add(&l.Figures)
	}
	return s
}

// Whatever agents are called, the document opens, every row is there, and two names never look the same.
func TestHostileNamesAreReadable(t *testing.T) {
	t.Parallel()
	for i := range hostile() {
		names := append(slices.Clone(hostile()[i:]), hostile()[:i]...)
		pdf := draw(t, hostileStatement(names))
		if i > 0 {
			continue
		}
		show(t, "hostile", pdf)
		wantText(t, pdf, "агент-7", "πράκτορας", "=cmd|' /C calc'!A0", "客服机器人", "請求エージェント", "고객지원",
			"[robot face] agent [rocket] "+code("🤖 agent 🚀"), "[woman][personal computer] "+code("👩🏽‍💻"),
			"<script>alert(1)</script>", "(not printable) "+code("   "))
		pdfTool(t, pdf, "pdftoppm", "-r", "40", "-png")
	}
	seen := map[string]string{}
	for _, name := range hostile() {
		shown := label(name)
		if other, ok := seen[shown]; ok {
			t.Errorf("%q and %q are both shown as %q", name, other, shown)
		}
		seen[shown] = name
	}
}

// Names that are read from the right are drawn in that order, numbers in them from the left.
func TestVisualOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "שלום": "םולש", "שלום-סוכן 42": "42 ןכוס-םולש", "bot שלום!": "bot םולש!", "שלום abc שלום": "םולש abc םולש",
		"(שלום) x": "(םולש) x", "ש(1)ל": "ל(1)ש", "ب\u064eت": "تب\u064e", "": "",
		"ש 12.50 ל": "ל 12.50 ש", "ש%x": "ש%x", "ש 10%, x": "10% ש, x", "م-1/2 ب": "ب 1/2-م", "x ١٢ ש": "x ש ١٢", "a-ש": "a-ש",
	} {
		if got := visual(text); got != want {
			t.Errorf("visual(%q) = %q, want %q", text, got, want)
		}
	}
}

// Arabic letters take the form that their neighbours ask for, and lam and alef are written as one.
func TestArabicLettersJoin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "ب": "ﺏ", "بب": "ﺑﺐ", "ببب": "ﺑﺒﺐ", "دب": "ﺩﺏ", "بدب": "ﺑﺪﺏ", "ب ب": "ﺏ ﺏ", "بxب": "ﺏxﺏ", "لا": "ﻻ", "بلا": "ﺑﻼ", "ء": "ﺀ",
		"وكيل الدعم": "ﻭﻛﻴﻞ ﺍﻟﺪﻋﻢ", "بَب": "ﺑَﺐ", "پپ": "ﭘﭗ", "گ": "ﮒ", "سلام": "ﺳﻼﻡ", "שלום": "שלום", "٣٤٥": "٣٤٥", "": "",
	} {
		if got := joined(text); got != want {
			t.Errorf("joined(%q) = %q (%x), want %q", text, got, []rune(got), want)
		}
	}
}

// What the CSV holds is what went in, and no field is a formula.
func TestHostileCSV(t *testing.T) {
	t.Parallel()
	lines, err := csv.NewReader(bytes.NewReader(WriteCSV(hostileStatement(hostile())))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	agents := map[string]string{}
	for _, line := range lines {
		for _, field := range line {
			if !utf8.ValidString(field) {
				t.Errorf("%q is not UTF-8", field)
			}
			if trimmed := strings.TrimLeft(field, " "); trimmed != "" && strings.ContainsRune("=+-@\t\r", rune(trimmed[0])) {
				t.Errorf("a spreadsheet takes %q for a formula", field)
			}
		}
		if line[0] == "agent" {
			agents[strings.TrimPrefix(line[2], "'")] = line[5]
		}
	}
	for _, name := range hostile() {
		want := strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), "\r\n", "\n")
		got, ok := agents[want]
		if !ok {
			t.Errorf("%q is not in the CSV", name)
		}
		if _, lossy := cleaned(name); lossy && got != code(name) {
			t.Errorf("%q has code %q in the CSV, and %q in the PDF", name, got, code(name))
		}
	}
}

// largeReportVar is the time that a large report may take, such as 2s: it is evaluated only where it is given.
const largeReportVar = "OUTLAY_LARGE_REPORT"

// Two thousand agents over a month take less than 100 MiB from the rows to the documents, on at most 100 pages, whatever they are
// called.
func TestLargeReport(t *testing.T) {
	scripts := map[string]string{"latin": "agent-%04d", "han": "客户支持机器人代理-%04d", "emoji": "🤖🚀 agent %04d"}
	if raceDetector { // Everything takes long there: the script of the largest documents stands for the others.
		scripts = map[string]string{"han": scripts["han"]}
	}
	for script, name := range scripts {
		t.Run(script, func(t *testing.T) { largeReport(t, script, name) })
	}
}

func largeReport(t *testing.T, script, name string) {
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "Large")
	calls := fleet(2, november, 30, 2000, 5000)
	for i := range calls {
		var n int
		if _, err := fmt.Sscanf(calls[i].agent, "agent-%d", &n); err != nil {
			t.Fatal(err)
		}
		calls[i].agent = fmt.Sprintf(name, n)
	}
	for i := range 2000 { // Every agent has at least one event.
		calls = append(calls, call{at: november.Add(time.Duration(i) * time.Minute), agent: fmt.Sprintf(name, i), provider: "openai", model: "gpt-4o", in: 100, out: 10, cost: int64(i) * 1e6, source: "calculated", price: "p"})
	}
	l.store(calls...)
	l.refresh()
	r := l.request(nil)
	glyphs() // As in a process that runs.
	stroked()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := watchHeap(t)
	start := time.Now()
	s := l.read(r)
	read := time.Since(start)
	pdf := draw(t, s)
	file := WriteCSV(s)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	most := peak()
	t.Logf("%d events, %d agents: read %v, all %v; PDF %d KiB, CSV %d KiB; allocated %d MiB, heap at most %d MiB above the start",
		len(calls), len(s.ByAgent), read, took, len(pdf)>>10, len(file)>>10, (after.TotalAlloc-before.TotalAlloc)>>20, (most-before.HeapAlloc)>>20)
	if len(s.ByAgent) != 2000 || most-before.HeapAlloc > 100<<20 {
		t.Errorf("%d agents, %d MiB", len(s.ByAgent), (most-before.HeapAlloc)>>20)
	}
	if limit, err := time.ParseDuration(os.Getenv(largeReportVar)); err == nil && took > limit {
		t.Errorf("it took %v", took)
	}
	show(t, "large-"+script, pdf)
	if pages := pages(t, pdf); pages > 100 {
		t.Errorf("%d pages", pages)
	}
}

// watchHeap measures the heap until the function it returns is called, which answers the most there was.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-stop:
				most <- peak
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-most
	}
}

var pageOf = regexp.MustCompile(`Page \d+ of (\d+)`)

// pages counts the pages, and holds their numbers to be right.
func pages(t testing.TB, pdf []byte) (n int) {
	t.Helper()
	for _, line := range text(t, pdf) {
		if m := pageOf.FindString(line); m != "" {
			n++
			if !strings.HasPrefix(m, fmt.Sprintf("Page %d of ", n)) {
				t.Errorf("page %d is numbered %q", n, m)
			}
		}
	}
	return n
}

// However much there is, a document has at most 100 pages and its sums are of everything.
func TestReportHasAtMost100Pages(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 6000 {
		names = append(names, fmt.Sprintf("name %d", i))
	}
	s := hostileStatement(names)
	s.Agents = nil
	pdf := draw(t, s)
	if n := pages(t, pdf); n < 50 || n > 100 {
		t.Errorf("%d pages", n)
	}
	wantText(t, pdf, "and 3500 more agents", "6000 agents", s.Totals.Cost.dollars())
}

// FuzzPDF draws and writes any names, and never fails.
func FuzzPDF(f *testing.F) {
	for _, name := range hostile() {
		f.Add(name, "other")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 10_000 {
			return
		}
		s := hostileStatement([]string{a, b})
		if _, err := Draw(s); err != nil {
			t.Fatalf("%q, %q: %v", a, b, err)
		}
		if _, err := csv.NewReader(bytes.NewReader(WriteCSV(s))).ReadAll(); err != nil {
			t.Fatalf("CSV of %q, %q: %v", a, b, err)
		}
	})
}

// Amounts are rounded to the cent as PostgreSQL and invoices do, and written with all decimals without a float.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		nano           int64
		dollars, exact string
	}{
		{0, "$0.00", "0"},
		{1, "<$0.01", "0.000000001"},
		{4_999_999, "<$0.01", "0.004999999"},
		{5_000_000, "$0.01", "0.005"},
		{1_234_567_890, "$1.23", "1.23456789"},
		{1_235_000_000, "$1.24", "1.235"},
		{999_995_000_000, "$1,000.00", "999.995"},
		{1_234_567_000_000_000, "$1,234,567.00", "1234567"},
		{9_223_372_036_854_775_807, "$9,223,372,036.85", "9223372036.854775807"},
	} {
		a := amountOf(tc.nano)
		if got := a.dollars(); got != tc.dollars {
			t.Errorf("dollars(%d) = %s, want %s", tc.nano, got, tc.dollars)
		}
		if got := a.exact(); got != tc.exact {
			t.Errorf("exact(%d) = %s, want %s", tc.nano, got, tc.exact)
		}
	}
}

// Changes are in per cent, and what there was nothing of before is new.
func TestChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		before, after int64
		want          string
	}{{0, 0, "–"}, {0, 5, "new"}, {100, 100, "±0.0%"}, {100, 150, "+50.0%"}, {100, 25, "−75.0%"}, {3, 0, "−100.0%"}, {1, 1_000_000, ">+9999%"}, {10_000, 10_001, "±0.0%"}} {
		if got := changeOf(tc.before, tc.after); got != tc.want {
			t.Errorf("change from %d to %d = %s, want %s", tc.before, tc.after, got, tc.want)
		}
	}
}

// The axis of a chart reaches its highest bar with few round steps.
func TestNiceScale(t *testing.T) {
	t.Parallel()
	for range 2000 {
		top := amountOf(rand.Int64N(1 << (1 + rand.IntN(62))))
		s := niceScale(&top)
		if s.top().cmp(&top) < 0 || s.ticks < 1 || s.ticks > 5 {
			t.Fatalf("scale of %s: %d steps of %s", top.String(), s.ticks, s.step.String())
		}
	}
}
