package watch

import (
	"errors"
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
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// world is a database with an account, and a watcher whose time passes by hand.
type world struct {
	t       testing.TB
	db      *schematest.DB
	now     time.Time
	watcher *Watcher
	account schema.ID
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
	w.watcher = w.newWatcher()
	return w
}

func (w *world) newWatcher() *Watcher {
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

// rule makes a rule that tells one address by e-mail.
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
	if err := w.watcher.lead.take(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.watcher.Check(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// told lists all messages in the order in which they came up, and by their text where
// they came up together. Each is as the OpenAPI document says.
func (w *world) told() []string {
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

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.told(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("told (-want +got):\n%s", diff)
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

// A rule fires when its condition begins to hold and is told once more when that ends,
// whatever processor checks, and rests for its cooldown then.
func TestRuleFiresOnceAndResolvesOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		r := w.rule(nil)
		begin := w.now
		w.check()
		if got := w.status(r); got != "no_data 0, never any data, never fired" {
			t.Errorf("without data: %s", got)
		}
		w.arrive(w.now, "bot", "openai/m", arrival{events: 50, usd: 5})
		w.check()
		w.wantTold()
		if got := w.status(r); got != "ok 5, never fired" {
			t.Errorf("at the threshold: %s", got)
		}
		w.now = w.now.Add(10 * time.Second)
		w.arrive(w.now, "bot2", "other/m", arrival{events: 1, usd: 0.000000001})
		crossed := w.now
		w.check()
		fired := "alert.firing | Firing: Spend | $5.00 in 5 min, above $5.00"
		w.wantTold(fired)
		w.watcher = w.restarted()
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 2.5})
		w.now = w.now.Add(10 * time.Second)
		w.check()
		w.now = begin.Add(5 * time.Minute)
		w.check()
		w.wantTold(fired)
		if got := w.status(r); got != "firing 7.500000001" {
			t.Errorf("firing: %s", got)
		}
		w.now = begin.Add(6 * time.Minute)
		w.watcher = w.restarted()
		w.check()
		w.check()
		resolved := "alert.resolved | Resolved: Spend | $0.00 in 5 min, not above $5.00"
		w.wantTold(fired, resolved)
		all := w.incidents()
		if len(all) != 1 || !all[0].StartedAt.Equal(crossed) || all[0].EndedAt == nil || !all[0].EndedAt.Equal(w.now) ||
			all[0].Value != 5000000001 || all[0].Peak != 7500000001 {
			t.Errorf("incidents %+v", all)
		}
		w.now = begin.Add(time.Hour)
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		w.wantTold(fired, resolved)
		w.now = begin.Add(66 * time.Minute)
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		w.wantTold(fired, resolved, "alert.firing | Firing: Spend | $6.00 in 5 min, above $5.00")
	})
}

// restarted is another watcher, after the first has handed the lead on.
func (w *world) restarted() *Watcher {
	w.t.Helper()
	if err := w.watcher.lead.drop(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.newWatcher()
}

// Every metric is what it says, over what the rule's filters let through and its
// window holds.
func TestEveryMetric(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		set := func(text string) *string { return &text }
		cases := []struct {
			change func(*alert.Rule)
			want   float64
		}{
			{func(r *alert.Rule) {}, 1e9},
			{func(r *alert.Rule) { r.Window = alert.FifteenMinutes }, 3e9},
			{func(r *alert.Rule) { r.Window = alert.Hour }, 7e9},
			{func(r *alert.Rule) { r.Window = alert.Day }, 15e9},
			{func(r *alert.Rule) { r.Window, r.Agent = alert.Hour, set("b") }, 2e9},
			{func(r *alert.Rule) { r.Window, r.Model = alert.Hour, set("m2") }, 4e9},
			{func(r *alert.Rule) { r.Window, r.Provider, r.Agent = alert.Day, set("p"), set("a") }, 13e9},
			{func(r *alert.Rule) { r.Agent = set("nobody") }, 0},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.Events, alert.Hour }, 70},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.Errors, alert.Hour }, 7},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.ErrorRate, alert.Hour }, 0.1},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.InputTokens, alert.Hour }, 700},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.OutputTokens, alert.Hour }, 1400},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.Unpriced, alert.Hour }, 14},
			{func(r *alert.Rule) { r.Metric, r.Window = alert.LatencyP95, alert.Hour }, 939},
			{func(r *alert.Rule) { r.Metric, r.Window, r.Agent = alert.LatencyP95, alert.Hour, set("b") }, 99},
			{func(r *alert.Rule) { r.Metric, r.Agent = alert.BudgetUsed, set("a") }, 0.25},
		}
		rules := make([]*alert.Rule, len(cases))
		none := 0.0
		for i, c := range cases {
			rules[i] = w.rule(func(r *alert.Rule) { r.Threshold = &none; c.change(r) })
		}
		for i, a := range []struct {
			age          time.Duration
			agent, model string
		}{{0, "a", "p/m1"}, {10 * time.Minute, "b", "p/m1"}, {50 * time.Minute, "a", "p/m2"}, {20 * time.Hour, "a", "p/m2"}, {25 * time.Hour, "a", "p/m1"}} {
			n := 1 << i
			latency := 1000
			if a.agent == "b" {
				latency = 100
			}
			w.arrive(w.now.Add(-a.age), a.agent, a.model, arrival{
				events: 10 * n, errors: n, unpriced: 2 * n, input: 100 * n, output: 200 * n, latency: latency, usd: float64(n),
			})
		}
		// The first model of agent a has another provider in one place.
		w.arrive(w.now.Add(-30*time.Hour), "a", "q/m1", arrival{events: 1, usd: 100})
		w.exec(`INSERT INTO budgets (account_id, agent, limit_nano_usd, period, timezone) VALUES ($1, 'a', 4000000000, 'day', 'UTC')`, w.account)
		w.exec(`INSERT INTO spend VALUES ($1, 'a', $2, 1000000000, 1)`, w.account, w.now.Truncate(15*time.Minute))
		for round := range 2 {
			w.check()
			statuses, err := alert.NewStore(db.Pool).Statuses(t.Context(), w.account)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range cases {
				s := statuses[rules[i].ID]
				if s.Value == nil || *s.Value != c.want || (s.State == alert.Firing) != (c.want > 0) {
					t.Errorf("round %d, case %d (%s %s): %+v, want %v", round, i, rules[i].Metric, rules[i].Window, s, c.want)
				}
			}
			// Once more, after what is old was folded, two minutes later.
			w.now = w.now.Add(2 * time.Minute)
			w.fold()
		}
		var widths []int16
		rows, _ := db.Pool.Query(t.Context(), `SELECT DISTINCT minutes FROM arrivals ORDER BY 1`)
		if widths, _ = pgx.CollectRows(rows, pgx.RowTo[int16]); len(widths) != 3 {
			t.Errorf("sums by %v minutes, want all three", widths)
		}
	})
}

// fold makes old sums coarser, as a processor does every minute.
func (w *world) fold() {
	w.t.Helper()
	conn, err := w.db.Pool.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Release()
	tables := upkeep.New(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func() time.Time { return w.now })
	if err := tables.FoldArrivals(w.t.Context(), conn.Conn()); err != nil {
		w.t.Fatal(err)
	}
}

// A processor that was paused while it led, and wakes up when another one leads,
// changes nothing.
func TestAStaleLeaderChangesNothing(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		w.rule(nil)
		w.check()
		w.arrive(w.now, "bot", "openai/m", arrival{events: 50, usd: 50})
		paused, other := w.watcher, w.newWatcher()
		if err := other.lead.take(t.Context()); !errors.Is(err, errNotLeading) {
			t.Fatalf("took the lead from one that has it: %v", err)
		}
		w.exec(`UPDATE alert_leader SET until = now() - interval '1 second'`)
		if err := paused.Check(t.Context()); !errors.Is(err, errNotLeading) {
			t.Errorf("checked without the lead: %v", err)
		}
		if err := other.lead.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := paused.Check(t.Context()); !errors.Is(err, errNotLeading) {
			t.Errorf("checked while another leads: %v", err)
		}
		w.wantTold()
		w.watcher = other
		w.check()
		w.wantTold("alert.firing | Firing: Spend | $50.00 in 5 min, above $5.00")
	})
}

// While the processors are behind, rules are checked for the time up to which all is
// stored. When they are far behind, what is there may fire, but nothing ends.
func TestEventsThatAreNotStoredYetEndNothing(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		w.rule(nil)
		stored := func(at time.Time) {
			w.exec(`INSERT INTO kafka_offsets (topic, partition, next_offset, complete_until) VALUES ('topic', 0, 0, $1), ('other', 0, 0, '2020-01-01')
				ON CONFLICT (topic, partition) DO UPDATE SET complete_until = excluded.complete_until`, at)
		}
		begin := w.now
		stored(begin)
		w.arrive(begin, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		fired := "alert.firing | Firing: Spend | $6.00 in 5 min, above $5.00"
		w.wantTold(fired)
		w.now = begin.Add(10 * time.Minute)
		stored(begin.Add(4 * time.Minute))
		w.check()
		w.wantTold(fired)
		w.now = begin.Add(4 * time.Hour)
		w.check()
		w.wantTold(fired)
		second := w.rule(func(r *alert.Rule) { r.Name = "Second" })
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 7})
		w.check()
		if got := w.status(second); got != "firing 7" {
			t.Errorf("far behind: %s", got)
		}
		stored(w.now.Add(6 * time.Minute))
		w.now = w.now.Add(7 * time.Minute)
		w.check()
		if n := len(w.told()); n != 4 {
			t.Errorf("%d messages, want 4: %v", n, w.told())
		}
	})
}

// A rule that is disabled or removed while it fires leaves an incident that ended, and
// tells nobody.
func TestIncidentsEndWithTheirRule(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		first, second := w.rule(nil), w.rule(nil)
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		store := alert.NewStore(db.Pool)
		first.Enabled, first.UpdatedAt = false, w.now.Add(time.Second)
		if err := errors.Join(store.Update(t.Context(), first), store.Delete(t.Context(), w.account, second.ID)); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Minute)
		w.check()
		if all := w.incidents(); len(all) != 2 || all[0].EndedAt == nil || all[1].EndedAt == nil || len(w.told()) != 2 {
			t.Errorf("incidents %+v, told %v", all, w.told())
		}
	})
}

// The thresholds of a cap are told once in a period without a rule, the cap itself
// without being asked for, and anew in the next period and after a reset.
func TestThresholdsOfCapsAreToldOnceInAPeriod(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		// Resets know the clock of the database only.
		w.now = time.Now().UTC().Truncate(time.Second)
		store := alert.NewStore(db.Pool)
		if _, err := store.SetChannels(t.Context(), w.account, nil, []alert.Channel{{Type: alert.Email, Address: "cfo@example.com"}}, w.now); err != nil {
			t.Fatal(err)
		}
		caps := budget.NewStore(db.Pool)
		scope := budget.Scope{AccountID: w.account, Agent: "bot"}
		b := budget.Budget{Scope: scope, Limit: 10e9, Period: budget.Month, Timezone: "UTC", AlertAt: []float64{0.5, 0.8, 1}, OnUnpriced: budget.Allow}
		nothing := budget.Budget{Scope: budget.Scope{AccountID: w.account, Agent: "off"}, Period: budget.Day, Timezone: "UTC", OnUnpriced: budget.Allow}
		if err := errors.Join(caps.Put(t.Context(), b), caps.Put(t.Context(), nothing)); err != nil {
			t.Fatal(err)
		}
		spend := func(usd float64) {
			w.exec(`INSERT INTO spend AS s VALUES ($1, 'bot', $2, $3, 1) ON CONFLICT (account_id, agent, bucket)
				DO UPDATE SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd`, w.account, w.now.Truncate(15*time.Minute), int64(usd*1e9))
		}
		spend(4.99)
		w.check()
		w.wantTold()
		spend(0.01)
		w.check()
		w.check()
		half := "budget.threshold | 50 % of the cap: bot | bot has spent $5.00 of its cap of $10.00 for the month"
		w.wantTold(half)
		w.now = w.now.Add(time.Second)
		spend(6)
		w.watcher = w.restarted()
		w.check()
		w.check()
		most := "budget.threshold | 80 % of the cap: bot | bot has spent $11.00 of its cap of $10.00 for the month"
		all := "budget.exceeded | Cap reached: bot | bot has spent $11.00 of its cap of $10.00 for the month"
		w.wantTold(half, all, most)
		w.now = w.now.Add(time.Second)
		if err := caps.Reset(t.Context(), scope, b.Window(w.now), nil); err != nil {
			t.Fatal(err)
		}
		w.check()
		spend(5)
		w.check()
		w.wantTold(half, all, most, half)
		w.now = b.Window(w.now).End.Add(time.Hour)
		w.check()
		w.wantTold(half, all, most, half)
		spend(8)
		w.check()
		if got := w.told(); len(got) != 6 || !strings.HasPrefix(got[5], "budget.threshold | 80 %") {
			t.Errorf("in the next month: %v", got)
		}
		if n := len(w.incidents()); n != 6 {
			t.Errorf("%d incidents, want 6", n)
		}
	})
}

// An agent that spends far more than it usually does at this hour of the week is told
// with what is usual; so is one that falls silent, and none of which too little is
// known.
func TestAnomaliesAreExplained(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		sensitivity := 3.0
		cost := w.rule(func(r *alert.Rule) {
			r.Condition, r.Threshold, r.Sensitivity, r.Window = alert.Anomaly, nil, &sensitivity, alert.Hour
		})
		latency := w.rule(func(r *alert.Rule) {
			r.Name, r.Metric = "Latency", alert.LatencyP95
			r.Condition, r.Threshold, r.Sensitivity, r.Window = alert.Anomaly, nil, &sensitivity, alert.Hour
		})
		w.check()
		if got := w.status(cost); got != "no_data, never any data, never fired" {
			t.Errorf("without data: %s", got)
		}
		w.arrive(w.now, "new", "p/m", arrival{events: 1000, usd: 1000, latency: 10})
		w.check()
		if got := w.status(cost); got != "learning 1000, never fired" {
			t.Errorf("without a past: %s", got)
		}
		w.exec(`DELETE FROM arrivals`)
		// Six weeks of $3 an hour, give or take, with 100 calls of 100 ms.
		for week := 1; week <= 6; week++ {
			for hour := -3; hour <= 3; hour++ {
				at := w.now.Add(time.Duration(hour)*time.Hour - time.Duration(week)*7*24*time.Hour).Truncate(time.Hour)
				for _, agent := range []string{"bot", "quiet", "usual"} {
					w.arrive(at, agent, "p/m", arrival{events: 100, usd: 3 + 0.1*float64((week+hour+4)%5), latency: 100})
				}
			}
		}
		w.watcher = w.restarted() // What it knows of the past is an hour old.
		for _, agent := range []string{"bot", "usual"} {
			at := w.now.Add(-10 * time.Minute)
			w.arrive(at, agent, "p/m", arrival{events: 100, usd: map[string]float64{"bot": 41.2, "usual": 3.6}[agent], latency: map[string]int{"bot": 100, "usual": 900}[agent]})
		}
		w.check()
		w.check()
		told := w.told()
		for i, want := range []string{
			"alert.firing | Firing: Latency (usual) | 939 ms p95 latency in 1 h; usual 99 ms p95 latency ± 20",
			"alert.firing | Firing: Spend (bot) | $41.20 in 1 h; usual $3.23 ± 0.84",
			"alert.firing | Firing: Spend (quiet) | $0.00 in 1 h; usual $3.23 ± 0.84",
		} {
			if i >= len(told) || !contains(told, want) {
				t.Errorf("told %q, want %q among it", told, want)
			}
		}
		if len(told) != 3 || w.status(cost) != "firing 41.2" || !strings.HasPrefix(w.status(latency), "firing 939") {
			t.Errorf("told %q; %s; %s", told, w.status(cost), w.status(latency))
		}
		w.now = w.now.Add(20 * time.Minute)
		w.arrive(w.now, "quiet", "p/m", arrival{events: 100, usd: 3})
		w.check()
		if got := w.told(); len(got) != 4 || !contains(got, "alert.resolved | Resolved: Spend (quiet) | $3.00 in 1 h; usual $3.26 ± 0.84") {
			t.Errorf("told %q", got)
		}
	})
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}
