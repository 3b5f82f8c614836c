package alerting

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
)

// A rule fires when its condition begins to hold and is sent once more when that ends,
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
		w.wantSent()
		if got := w.status(r); got != "ok 5, never fired" {
			t.Errorf("at the threshold: %s", got)
		}
		w.now = w.now.Add(10 * time.Second)
		w.arrive(w.now, "bot2", "other/m", arrival{events: 1, usd: 0.000000001})
		crossed := w.now
		w.check()
		fired := "alert.firing | Firing: Spend | $5.00 in 5 min, above $5.00"
		w.wantSent(fired)
		w.evaluator = w.restarted()
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 2.5})
		w.now = w.now.Add(10 * time.Second)
		w.check()
		w.now = begin.Add(5 * time.Minute)
		w.check()
		w.wantSent(fired)
		if got := w.status(r); got != "firing 7.500000001" {
			t.Errorf("firing: %s", got)
		}
		w.now = begin.Add(6 * time.Minute)
		w.evaluator = w.restarted()
		w.check()
		w.check()
		resolved := "alert.resolved | Resolved: Spend | $0.00 in 5 min, not above $5.00"
		w.wantSent(fired, resolved)
		all := w.incidents()
		if len(all) != 1 || !all[0].StartedAt.Equal(crossed) || all[0].EndedAt == nil || !all[0].EndedAt.Equal(w.now) ||
			all[0].Value != 5000000001 || all[0].Peak != 7500000001 {
			t.Errorf("incidents %+v", all)
		}
		w.now = begin.Add(time.Hour)
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		w.wantSent(fired, resolved)
		w.now = begin.Add(66 * time.Minute)
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 6})
		w.check()
		w.wantSent(fired, resolved, "alert.firing | Firing: Spend | $6.00 in 5 min, above $5.00")
	})
}

// Every metric is what it states, over what the rule's filters let through and its
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

// A processor that was paused while it led, and wakes up when another one leads,
// changes nothing.
func TestAStaleLeaderChangesNothing(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db)
		w.rule(nil)
		w.check()
		w.arrive(w.now, "bot", "openai/m", arrival{events: 50, usd: 50})
		paused, other := w.evaluator, w.newEvaluator()
		if err := other.leader.renew(t.Context()); !errors.Is(err, errNotLeader) {
			t.Fatalf("took the lease from its holder: %v", err)
		}
		w.exec(`UPDATE alert_leader SET until = now() - interval '1 second'`)
		if err := paused.Check(t.Context()); !errors.Is(err, errNotLeader) {
			t.Errorf("checked without the lease: %v", err)
		}
		if err := other.leader.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := paused.Check(t.Context()); !errors.Is(err, errNotLeader) {
			t.Errorf("checked while another is the leader: %v", err)
		}
		w.wantSent()
		w.evaluator = other
		w.check()
		w.wantSent("alert.firing | Firing: Spend | $50.00 in 5 min, above $5.00")
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
		w.wantSent(fired)
		w.now = begin.Add(10 * time.Minute)
		stored(begin.Add(4 * time.Minute))
		w.check()
		w.wantSent(fired)
		w.now = begin.Add(4 * time.Hour)
		w.check()
		w.wantSent(fired)
		second := w.rule(func(r *alert.Rule) { r.Name = "Second" })
		w.arrive(w.now, "bot", "openai/m", arrival{events: 1, usd: 7})
		w.check()
		if got := w.status(second); got != "firing 7" {
			t.Errorf("far behind: %s", got)
		}
		stored(w.now.Add(6 * time.Minute))
		w.now = w.now.Add(7 * time.Minute)
		w.check()
		if n := len(w.sent()); n != 4 {
			t.Errorf("%d messages, want 4: %v", n, w.sent())
		}
	})
}

// A rule that is disabled or removed while it fires leaves an incident that ended, and
// notifies nobody.
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
		if all := w.incidents(); len(all) != 2 || all[0].EndedAt == nil || all[1].EndedAt == nil || len(w.sent()) != 2 {
			t.Errorf("incidents %+v, sent %v", all, w.sent())
		}
	})
}

// An agent that spends far more than it usually does at this hour of the week is sent
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
		w.evaluator = w.restarted() // What it knows of the past is an hour old.
		for _, agent := range []string{"bot", "usual"} {
			at := w.now.Add(-10 * time.Minute)
			w.arrive(at, agent, "p/m", arrival{events: 100, usd: map[string]float64{"bot": 41.2, "usual": 3.6}[agent], latency: map[string]int{"bot": 100, "usual": 900}[agent]})
		}
		w.check()
		w.check()
		sent := w.sent()
		for i, want := range []string{
			"alert.firing | Firing: Latency (usual) | 939 ms p95 latency in 1 h; usual 99 ms p95 latency ± 20",
			"alert.firing | Firing: Spend (bot) | $41.20 in 1 h; usual $3.23 ± 0.84",
			"alert.firing | Firing: Spend (quiet) | $0.00 in 1 h; usual $3.23 ± 0.84",
		} {
			if i >= len(sent) || !slices.Contains(sent, want) {
				t.Errorf("sent %q, want %q among it", sent, want)
			}
		}
		if len(sent) != 3 || w.status(cost) != "firing 41.2" || !strings.HasPrefix(w.status(latency), "firing 939") {
			t.Errorf("sent %q; %s; %s", sent, w.status(cost), w.status(latency))
		}
		w.now = w.now.Add(20 * time.Minute)
		w.arrive(w.now, "quiet", "p/m", arrival{events: 100, usd: 3})
		w.check()
		if got := w.sent(); len(got) != 4 || !slices.Contains(got, "alert.resolved | Resolved: Spend (quiet) | $3.00 in 1 h; usual $3.26 ± 0.84") {
			t.Errorf("sent %q", got)
		}
	})
}
