package alerting

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
)

// world is a database with an account, and a evaluator whose time passes by hand.
type world struct {
	t         testing.TB
	db        *schematest.DB
	now       time.Time
	evaluator *Evaluator
	account   schema.ID
}

func newWorld(t testing.TB, db *schematest.DB) *world {
	t.Helper()
	// A Wednesday at noon and a bit: windows begin at full minutes all the same.
	w := &world{t: t, db: db, now: time.Date(2026, 11, 18, 12, 0, 30, 0, time.UTC)}
	a, err := account.NewStore(db.Pool, time.Now).CreateAccount(t.Context(), "test", account.Enterprise)
	if err != nil {
		t.Fatal(err)
	}
	w.account = a.ID
	w.evaluator = w.newEvaluator()
	return w
}

func (w *world) newEvaluator() *Evaluator {
	return New(DefaultConfig(), Deps{
		Pool: schematest.As(w.t, w.db.Pool, "outlay_processor"), Topic: "topic", Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Now: func() time.Time { return w.now },
	})
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// rule makes a rule that notifies one address by e-mail.
func (w *world) rule(change func(*alert.Rule)) *alert.Rule {
	w.t.Helper()
	threshold := 5e9
	r := &alert.Rule{
		ID: schema.NewID(w.now), AccountID: w.account, Name: "Spend", Metric: alert.Cost, Window: alert.FiveMinutes,
		Condition: alert.Above, Threshold: &threshold, Cooldown: time.Hour, Enabled: true, CreatedAt: w.now, UpdatedAt: w.now,
		Channels: []alert.Channel{{Type: alert.Email, Address: "ops@example.com"}},
	}
	if change != nil {
		change(r)
	}
	if err := alert.NewStore(w.db.Pool).Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// arrive notes what arrived at a time, as the processor does. model has the provider
// before a slash.
func (w *world) arrive(at time.Time, agent, model string, s arrival) {
	w.t.Helper()
	provider, model, _ := strings.Cut(model, "/")
	w.exec(`INSERT INTO arrivals AS a VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (account_id, bucket, minutes, agent, provider, model) DO UPDATE SET events = a.events + excluded.events, cost_nano_usd = a.cost_nano_usd + excluded.cost_nano_usd`,
		w.account, at.Truncate(time.Minute), agent, provider, model, s.events, s.errors, s.unpriced, s.input, s.output,
		int64(s.usd*1e9), histogramOf(s.latency, s.events))
}

type arrival struct {
	events, errors, unpriced, input, output, latency int
	usd                                              float64
}

// histogramOf is the histogram of n events of one latency.
func histogramOf(latency, n int) string {
	if latency == 0 {
		return "0"
	}
	slot := 0
	for at := 8.0; slot < 84 && at <= float64(latency); slot++ {
		at *= 1.189207115002721
	}
	return fmt.Sprint(n) + strings.Repeat("0", 12*(slot+7))
}

func (w *world) check() {
	w.t.Helper()
	if err := w.evaluator.leader.renew(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.evaluator.Check(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// sent lists all messages in the order in which they came up, and by their text where
// they came up together. Each is as the OpenAPI document describes it.
func (w *world) sent() []string {
	w.t.Helper()
	payloads, _ := w.db.Pool.Query(w.t.Context(), `SELECT payload::text FROM deliveries`)
	var payload string
	if _, err := pgx.ForEachRow(payloads, []any{&payload}, func() error {
		schematest.CheckWebhook(w.t, []byte(payload))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	rows, _ := w.db.Pool.Query(w.t.Context(), `SELECT type || ' | ' || title || ' | ' || summary FROM deliveries ORDER BY created_at, 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) wantSent(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.sent(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func (w *world) status(r *alert.Rule) string {
	w.t.Helper()
	all, err := alert.NewStore(w.db.Pool).Statuses(w.t.Context(), w.account)
	if err != nil {
		w.t.Fatal(err)
	}
	s, ok := all[r.ID]
	if !ok {
		return "never checked"
	}
	line := string(s.State)
	if s.Value != nil {
		line += fmt.Sprintf(" %v", r.Metric.Shown(*s.Value))
	}
	if s.DataAt == nil {
		line += ", never any data"
	}
	if s.FiredAt == nil {
		line += ", never fired"
	}
	return line
}

func (w *world) incidents() []alert.Incident {
	w.t.Helper()
	f := alert.IncidentFilter{From: time.Unix(0, 0), To: w.now.AddDate(10, 0, 0)}
	list, err := alert.NewStore(w.db.Pool).Incidents(w.t.Context(), w.account, f, w.now.AddDate(10, 0, 0), schema.ID{}, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// restarted is another evaluator, after the first has resigned.
func (w *world) restarted() *Evaluator {
	w.t.Helper()
	if err := w.evaluator.leader.resign(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.newEvaluator()
}

// fold makes old sums coarser, as a processor does every minute.
func (w *world) fold() {
	w.t.Helper()
	conn, err := w.db.Pool.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Release()
	tables := upkeep.New(upkeep.Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }})
	if err := tables.FoldArrivals(w.t.Context(), conn.Conn()); err != nil {
		w.t.Fatal(err)
	}
}
