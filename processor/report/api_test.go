package report

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/query"
	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// api is the query tier over a ledger, asked by the account's owner. Only in this test the two tiers meet.
type api struct {
	*ledger
	url, token string
}

func newAPI(t *testing.T, pool *pgxpool.Pool, name string) *api {
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
	server, err := query.New(query.Config{Pool: schematest.As(t, pool, "outlay_query"), Keys: keys, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	l := newLedger(t, pool, name)
	user, err := account.NewStore(pool, time.Now).CreateUser(t.Context(), l.account, l.account.Text("acc")+"@example.com", "x", account.Owner)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := auth.NewTokens(keys, "outlay", time.Hour, time.Now).Issue(auth.Principal{UserID: user.ID, AccountID: l.account, Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	return &api{l, front.URL, token}
}

// ask returns the body of an answer that has to have this status.
func (a *api) ask(method, path, body string, status int) []byte {
	a.t.Helper()
	return schematest.Ask(a.t, method, a.url+path, a.token, body, status)
}

func (a *api) get(path string, v any) {
	a.t.Helper()
	d := json.NewDecoder(bytes.NewReader(a.ask(http.MethodGet, path, "", http.StatusOK)))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		a.t.Fatal(err)
	}
}

// figures are what the API answers, with every digit.
type figures struct {
	Events       json.Number
	Errors       json.Number
	Cost         json.Number `json:"cost_usd"`
	InputTokens  json.Number `json:"input_tokens"`
	OutputTokens json.Number `json:"output_tokens"`
	Unpriced     json.Number `json:"unpriced_events"`
}

// question is a set of data and a report of it.
type question struct {
	name           string
	from, to, zone string
	groupBy        string
	agents         []string
	calls          func() []call
	budgets        bool
}

func questions() []question {
	return []question{
		{name: "empty", from: "2025-11-01", to: "2025-12-01"},
		{name: "one", from: "2025-11-01", to: "2025-12-01", calls: func() []call {
			return []call{
				{at: november.Add(30 * time.Hour), agent: "solo", provider: "openai", model: "gpt-4o", in: 10, out: 3, cost: 4_999_999, source: "calculated", price: "p"},
				{at: november.Add(-30 * time.Hour), agent: "solo", provider: "openai", model: "gpt-4o", in: 10, out: 3, cost: 12_345_678, source: "calculated", price: "p"},
			}
		}},
		{name: "fleet", from: "2025-11-01", to: "2025-12-01", budgets: true, calls: func() []call {
			return fleet(3, november.AddDate(0, -1, 0), 61, 60, 150)
		}},
		{
			name: "half-hour zone, part of a day, three agents, by model", from: "2025-11-02T03:30:00Z", to: "2025-11-17T20:15:00Z", zone: "Asia/Kolkata", groupBy: "model",
			agents: []string{"agent-0001", "agent-0002", "agent-0005"}, budgets: true, calls: func() []call { return fleet(4, november.AddDate(0, -1, 0), 61, 20, 150) },
		},
		{name: "clocks change, large amounts, hostile names", from: "2025-10-20", to: "2025-11-03", zone: "Europe/Berlin", budgets: true, calls: hostileCalls},
	}
}

// hostileCalls cost more than 64 bits hold, by agents with names that are hard to print.
func hostileCalls() []call {
	var calls []call
	for i, name := range []string{"=cmd|' /C calc'!A0", "客服机器人", "🤖 agent", "a\"b,c", strings.Repeat("W", 200), "агент"} {
		for n := range 1800 {
			calls = append(calls, call{
				at: time.Date(2025, 10, 20, 1, 0, 0, 0, time.UTC).Add(time.Duration(n*11+i) * time.Minute), agent: name, provider: "", model: "m-" + string([]rune(name)[:1]), in: 1 << 40, out: 1 << 39,
				cost: 1_000_000_000_000_000 - int64(n), source: "client",
			})
		}
	}
	return calls
}

// The documents say what the API answers: the CSV with every digit, the text that poppler reads in the PDF to the cent.
func TestDocumentsAgreeWithTheAPI(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		runMaker(t, db.Pool, mail.DefaultConfig())
		for _, q := range questions() {
			t.Run(q.name, func(t *testing.T) {
				a := newAPI(t, db.Pool, "Account "+q.name)
				if q.calls != nil {
					a.store(q.calls()...)
					a.refresh()
				}
				if q.budgets {
					a.budgets()
				}
				pdf, sheet := a.generate(&q)
				show(t, strings.ReplaceAll(q.name, " ", "_")+"-"+string(db.Edition), pdf)
				want := a.answers(&q)
				a.holdCSV(&q, &want, sheet)
				a.holdPDF(&want, pdf)
			})
		}
	})
}

// generate asks for a report over HTTP and downloads it when it is ready.
func (a *api) generate(q *question) (pdf []byte, sheet [][]string) {
	a.t.Helper()
	body, err := json.Marshal(map[string]any{"title": q.name, "from": q.from, "to": q.to, "timezone": q.zone, "group_by": q.groupBy, "agents": append([]string{}, q.agents...)})
	if err != nil {
		a.t.Fatal(err)
	}
	var asked struct{ ID, Status string }
	if err := json.Unmarshal(a.ask(http.MethodPost, "/v1/reports/generate", string(body), http.StatusAccepted), &asked); err != nil {
		a.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); asked.Status != "ready"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) || asked.Status == "failed" {
			a.t.Fatalf("the report is %s", asked.Status)
		}
		a.get("/v1/reports/"+asked.ID, &asked)
	}
	pdf = a.ask(http.MethodGet, "/v1/reports/"+asked.ID+"/download", "", http.StatusOK)
	sheet, err = csv.NewReader(bytes.NewReader(a.ask(http.MethodGet, "/v1/reports/"+asked.ID+"/download?format=csv", "", http.StatusOK))).ReadAll()
	if err != nil {
		a.t.Fatal(err)
	}
	return pdf, sheet
}

// holdCSV holds every line of the CSV to the API, with all digits, and the other way round.
func (a *api) holdCSV(q *question, want *answers, sheet [][]string) {
	a.t.Helper()
	got := map[string]map[string]figures{"total": {}, "previous": {}, "agent": {}, "model": {}, "day": {}, "before": {}}
	for _, line := range sheet[1:] {
		// The columns are those of csvHeader.
		f := figures{Events: json.Number(line[6]), Errors: json.Number(line[7]), Unpriced: json.Number(line[8]), InputTokens: json.Number(line[9]), OutputTokens: json.Number(line[10]), Cost: json.Number(line[12])}
		switch line[0] {
		case "total", "previous":
			got[line[0]][""] = f
		case "day":
			got["day"][line[1]] = f
		case "agent":
			name := strings.TrimPrefix(line[2], "'")
			got["agent"][name], got["before"][name] = f, figures{Cost: json.Number(line[13])}
		case "model":
			key := line[4] + "\x00" + line[3]
			if len(q.agents) > 0 {
				key = line[4] // The API does not tell an agent's providers apart.
			}
			got["model"][key] = got["model"][key].plus(f)
		}
	}
	a.same("total", map[string]figures{"": want.total}, got["total"])
	a.same("previous", map[string]figures{"": want.previous}, got["previous"])
	a.same("agent", want.agents, got["agent"])
	a.same("model", want.models, got["model"])
	if want.days != nil {
		a.same("day", want.days, got["day"])
	}
	for name, f := range got["before"] {
		if decimal(f.Cost).Cmp(decimal(want.before[name].Cost)) != 0 {
			a.t.Errorf("%s cost %s in the period before, the API states %s", name, f.Cost, want.before[name].Cost)
		}
	}
}

// same wants the same figures under the same names. What the documents have for refused events alone may be missing.
func (a *api) same(what string, want, got map[string]figures) {
	a.t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok && decimal(got[name].Events).Sign() != 0 {
			a.t.Errorf("%s %q is in the document only", what, name)
		}
	}
	for name, w := range want {
		g, ok := got[name]
		if !ok {
			a.t.Errorf("%s %q is not in the document", what, name)
			continue
		}
		for i, pair := range [][2]json.Number{{w.Events, g.Events}, {w.Errors, g.Errors}, {w.Unpriced, g.Unpriced}, {w.InputTokens, g.InputTokens}, {w.OutputTokens, g.OutputTokens}, {w.Cost, g.Cost}} {
			if decimal(pair[0]).Cmp(decimal(pair[1])) != 0 {
				a.t.Errorf("%s %q, figure %d: the document states %s, the API %s", what, name, i, pair[1], pair[0])
			}
		}
	}
}

// holdPDF holds the text of the PDF to the API, to the cent.
func (a *api) holdPDF(want *answers, pdf []byte) {
	a.t.Helper()
	lines := text(a.t, pdf)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], ",", "") // Between thousands.
	}
	all := strings.Join(lines, "\n")
	has := func(pattern string) {
		a.t.Helper()
		if !regexp.MustCompile(`(?m)` + pattern).MatchString(all) {
			a.t.Errorf("no line of the PDF is %s\n%s", pattern, all)
		}
	}
	row := func(name string, now, before string) {
		a.t.Helper()
		has(`^ *` + name + ` +` + regexp.QuoteMeta(now) + ` +` + regexp.QuoteMeta(before) + ` `)
	}
	row("Spend", dollarsOf(want.total.Cost), dollarsOf(want.previous.Cost))
	row("Events", whole(want.total.Events), whole(want.previous.Events))
	row("Errors", whole(want.total.Errors), whole(want.previous.Errors))
	row("Input tokens", whole(want.total.InputTokens), whole(want.previous.InputTokens))
	row("Output tokens", whole(want.total.OutputTokens), whole(want.previous.OutputTokens))
	row("Events without a known price", whole(want.total.Unpriced), whole(want.previous.Unpriced))
	for name, f := range want.agents {
		shown := regexp.QuoteMeta(strings.ReplaceAll(label(name), ",", ""))
		if len(name) > 100 {
			shown = `\S+…\S+` // It was cut.
		}
		has(`^ *` + shown + ` +` + whole(f.Events) + ` .* ` + regexp.QuoteMeta(dollarsOf(f.Cost)) + ` `)
	}
	for name, f := range want.models {
		model, provider, _ := strings.Cut(name, "\x00")
		if provider != "" {
			has(`^ *` + regexp.QuoteMeta(label(model)+" · "+label(provider)) + ` +` + whole(f.Events) + ` .* ` + regexp.QuoteMeta(dollarsOf(f.Cost)) + ` `)
		}
	}
	if n := pages(a.t, pdf); n < 1 || n > 100 {
		a.t.Errorf("%d pages", n)
	}
}
