package alerting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// capped is a world with a cap on agent bot, whose events are stored as the processor does.
type capped struct {
	*world
	sink   *timescale.Sink
	offset int64
	caps   *budget.Store
	cap    budget.Budget
}

func newCapped(t *testing.T, db *schematest.DB, now time.Time, b budget.Budget) *capped {
	t.Helper()
	w := newWorld(t, db)
	w.now = now
	if _, err := alert.NewStore(db.Pool).SetChannels(t.Context(), w.account, nil, []alert.Channel{{Type: alert.Email, Address: "cfo@example.com"}}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := timescale.NewPositions(db.Pool, "topic").Next(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	c := &capped{world: w, sink: timescale.New(db.Pool, "topic"), caps: budget.NewStore(db.Pool), cap: b}
	c.cap.Scope, c.cap.Timezone, c.cap.OnUnpriced = budget.Scope{AccountID: w.account, Agent: "bot"}, "UTC", budget.Allow
	c.put(func(*budget.Budget) {})
	return c
}

// newDayCap is a cap of 10 USD a day, at noon.
func newDayCap(t *testing.T) *capped {
	t.Helper()
	return newCapped(t, schematest.Database(t), noon, budget.Budget{Limit: 10e9, Period: budget.Day})
}

// put changes the cap, at the time of the world.
func (c *capped) put(change func(*budget.Budget)) {
	c.t.Helper()
	change(&c.cap)
	if err := c.caps.Put(c.t.Context(), c.cap); err != nil {
		c.t.Fatal(err)
	}
	c.exec(`UPDATE budgets SET updated_at = $1`, c.now)
}

// store stores an event that arrived at a time.
func (c *capped) store(at time.Time, usd int64) {
	c.t.Helper()
	item := timescale.Item{Offset: c.offset, Event: schema.Event{
		ID: schema.NewID(at), AccountID: c.account, Agent: "bot", SessionID: "ses_s", Time: at, ReceivedAt: at,
		LatencyMS: schema.NoLatency, Cost: schema.NanoUSD(usd * 1e9), Source: schema.CostCalculated, Status: schema.StatusOK,
	}}
	formatWindow := []timescale.Span{{Partition: 0, First: c.offset, Next: c.offset + 1}}
	if _, err := c.sink.Save(c.t.Context(), formatWindow, []timescale.Item{item}); err != nil {
		c.t.Fatal(err)
	}
	c.offset++
}

// checkAt checks at a time by when everything is stored that arrived before stored.
func (c *capped) checkAt(now, stored time.Time) {
	c.t.Helper()
	c.exec(`UPDATE kafka_offsets SET complete_until = greatest(complete_until, $1)`, stored)
	c.now = now
	c.check()
}

// lines are the incidents, the oldest first, with how they began and ended.
func (c *capped) lines() []string {
	c.t.Helper()
	all := c.incidents()
	slices.SortFunc(all, func(a, b alert.Incident) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.Name, b.Name))
	})
	lines := make([]string, len(all))
	for i, n := range all {
		end := "firing"
		if n.EndedAt != nil {
			end = "ended " + n.EndedAt.UTC().Format("02 15:04:05")
		}
		lines[i] = fmt.Sprintf("%s, began %s, %s", n.Name, n.StartedAt.UTC().Format("02 15:04:05"), end)
	}
	return lines
}

func (c *capped) wantIncidents(want ...string) {
	c.t.Helper()
	if diff := gocmp.Diff(want, c.lines()); diff != "" {
		c.t.Errorf("incidents (-want +got):\n%s", diff)
	}
}

// noon is the middle of a day that the machine's clock has passed, since when a cap may not be changed by it.
var noon = time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)

// The incident of a reached cap is firing until the cap is raised above what is spent, reset or removed, or its period ends.
func TestReachedCapIsFiringUntilItIsNotReached(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		c := newCapped(t, db, noon, budget.Budget{Limit: 1e9, Period: budget.Day})
		c.store(noon, 2)
		c.check()
		c.check()
		c.now = noon.Add(time.Hour)
		c.evaluator = c.restarted()
		c.check()
		c.wantIncidents("Cap reached: bot, began 10 12:00:00, firing")

		c.now = noon.Add(2 * time.Hour)
		c.put(func(b *budget.Budget) { b.Limit = 2e9 }) // Not above what is spent.
		c.now = c.now.Add(time.Minute)
		c.check()
		c.wantIncidents("Cap reached: bot, began 10 12:00:00, firing")

		c.now = noon.Add(3 * time.Hour)
		c.put(func(b *budget.Budget) { b.Limit = 5e9 })
		c.now = c.now.Add(10 * time.Second)
		c.check()
		raised := "Cap reached: bot, began 10 12:00:00, ended 10 15:00:30"
		c.wantIncidents(raised)

		c.now = noon.Add(4 * time.Hour)
		c.store(c.now, 4)
		c.check()
		c.check()
		c.wantIncidents(raised, "Cap reached: bot, began 10 16:00:00, firing")

		c.now = time.Date(2026, 3, 11, 0, 0, 7, 0, time.UTC)
		c.check()
		c.check()
		over := "Cap reached: bot, began 10 16:00:00, ended 11 00:00:00"
		c.wantIncidents(raised, over)

		c.store(c.now, 6)
		c.check()
		c.wantIncidents(raised, over, "Cap reached: bot, began 11 00:00:00, firing")
		c.now = c.now.Add(time.Minute)
		if err := c.caps.Delete(t.Context(), c.cap.Scope); err != nil {
			t.Fatal(err)
		}
		c.check()
		c.wantIncidents(raised, over, "Cap reached: bot, began 11 00:00:00, ended 11 00:01:07")
		c.wantSent(
			"budget.exceeded | Cap reached: bot | bot has spent $2.00 of its cap of $1.00 for the day",
			"budget.exceeded | Cap reached: bot | bot has spent $6.00 of its cap of $5.00 for the day",
			"budget.exceeded | Cap reached: bot | bot has spent $6.00 of its cap of $5.00 for the day",
		)
	})
}

// A reset ends the incident when it was made.
func TestResetEndsTheIncidentOfAReachedCap(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		// Resets know the clock of the database only.
		c := newCapped(t, db, time.Now().UTC().Truncate(time.Microsecond), budget.Budget{Limit: 1e9, Period: budget.Total})
		c.store(c.now, 2)
		c.check()
		before := c.incidents()
		if len(before) != 1 || before[0].EndedAt != nil {
			t.Fatalf("incidents %+v, want one that is firing", before)
		}
		if err := c.caps.Reset(t.Context(), c.cap.Scope, c.cap.Window(c.now), nil); err != nil {
			t.Fatal(err)
		}
		var at time.Time
		if err := db.Pool.QueryRow(t.Context(), `SELECT at FROM budget_resets`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(time.Hour)
		c.check()
		if got := c.incidents(); len(got) != 1 || got[0].EndedAt == nil || !got[0].EndedAt.Equal(at) {
			t.Errorf("incidents %+v, want one that ended at %v", got, at)
		}
		c.store(c.now, 1)
		c.check()
		if got := c.incidents(); len(got) != 2 || got[0].EndedAt != nil {
			t.Errorf("reached again after the reset: %+v", got)
		}
	})
}

// midnight ends the day of noon.
var midnight = time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC)

// A cap that was crossed shortly before its period ended, while no processor ran, is notified when its events are stored, with when it
// was; once, and also when that is long after the period's end.
func TestCapCrossedBeforeItsPeriodEndedIsNotified(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"3 s after": 3 * time.Second, "5 h after": 5 * time.Hour, "30 h after": 30 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
				c := newCapped(t, db, noon, budget.Budget{Limit: 10e9, Period: budget.Day, AlertAt: []float64{0.5}})
				c.store(noon, 1)
				c.checkAt(midnight.Add(-time.Minute), midnight.Add(-time.Minute))
				c.wantSent()
				back := midnight.Add(late)
				// Other processors were not reached: what arrived is not stored yet when the first check comes.
				c.checkAt(back, midnight.Add(-time.Minute))
				c.wantSent()
				c.store(midnight.Add(-25*time.Second), 10)
				c.checkAt(back.Add(10*time.Second), back)
				half := "budget.threshold | 50 % of the cap: bot | bot has spent $11.00 of its cap of $10.00 for the day that ended at 2026-03-11 00:00 UTC; 50 % was reached at 2026-03-10 23:59 UTC"
				all := "budget.exceeded | Cap reached: bot | bot has spent $11.00 of its cap of $10.00 for the day that ended at 2026-03-11 00:00 UTC; 100 % was reached at 2026-03-10 23:59 UTC"
				c.wantSent(all, half)
				for _, after := range []time.Duration{time.Second, 5 * time.Minute, 20 * time.Minute, 3 * time.Hour} {
					c.evaluator = c.restarted()
					c.checkAt(back.Add(after), back.Add(after))
				}
				c.wantSent(all, half)
				c.wantIncidents("50 % of the cap: bot, began 10 23:59:00, ended 10 23:59:00", "Cap reached: bot, began 10 23:59:00, ended 11 00:00:00")
			})
		})
	}
}

// After an outage of days each period that was over the cap is notified, and the present one as ever.
func TestEveryPeriodOfAnOutageIsChecked(t *testing.T) {
	t.Parallel()
	c := newDayCap(t)
	c.checkAt(noon, noon)
	for _, day := range []int{0, 2, 3} {
		c.store(noon.AddDate(0, 0, day), 10)
	}
	c.store(noon.AddDate(0, 0, 1), 9)
	c.checkAt(noon.AddDate(0, 0, 3).Add(time.Second), noon.AddDate(0, 0, 3))
	c.wantIncidents(
		"Cap reached: bot, began 10 12:00:30, ended 11 00:00:00", "Cap reached: bot, began 12 12:00:00, ended 13 00:00:00",
		"Cap reached: bot, began 13 12:00:00, firing",
	)
	if n := len(c.sent()); n != 3 {
		t.Errorf("%d messages, want 3: %v", n, c.sent())
	}
}

// A period is checked with the cap as it was then, or not at all: one that is lowered afterwards was not reached before.
func TestCapThatWasChangedIsNotAppliedToThePast(t *testing.T) {
	t.Parallel()
	c := newDayCap(t)
	c.store(noon, 5)
	c.checkAt(noon, noon)
	c.now = midnight.Add(2 * time.Second)
	c.put(func(b *budget.Budget) { b.Limit = 1e9 })
	c.checkAt(midnight.Add(3*time.Second), midnight)
	c.wantSent()
}

// A cap that is raised and stays reached is notified once, also when its period is checked again after its end.
func TestReachedCapThatIsRaisedALittle(t *testing.T) {
	t.Parallel()
	c := newDayCap(t)
	c.store(noon, 15)
	c.checkAt(noon, noon)
	c.now = midnight.Add(-2 * time.Second)
	c.put(func(b *budget.Budget) { b.Limit = 12e9 })
	for _, after := range []time.Duration{-time.Second, time.Second, time.Minute} {
		c.checkAt(midnight.Add(after), midnight.Add(after))
	}
	c.wantIncidents("Cap reached: bot, began 10 12:00:00, ended 11 00:00:00")
	if n := len(c.sent()); n != 1 {
		t.Errorf("%d messages, want 1: %v", n, c.sent())
	}
}

// A cap that is lowered below what is spent is reached when it is lowered, and a late message in a period that lasts states when it was.
func TestMessageStatesWhenItWas(t *testing.T) {
	t.Parallel()
	c := newDayCap(t)
	c.store(noon, 5)
	c.checkAt(noon.Add(time.Minute), noon.Add(time.Minute))
	c.now = noon.Add(time.Hour)
	c.put(func(b *budget.Budget) { b.Limit = 4e9 })
	c.checkAt(noon.Add(2*time.Hour), noon.Add(time.Hour))
	c.wantIncidents("Cap reached: bot, began 10 13:00:30, firing")
	if got := c.sent(); len(got) != 1 || !strings.HasSuffix(got[0], "for the day; 100 % was reached at 2026-03-10 13:00 UTC") {
		t.Errorf("sent %v", got)
	}
}

// The thresholds of a cap are sent once in a period without a rule, the cap itself
// without being asked for, and anew in the next period and after a reset.
func TestThresholdsOfCapsAreSentOnceInAPeriod(t *testing.T) {
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
		w.wantSent()
		spend(0.01)
		w.check()
		w.check()
		half := "budget.threshold | 50 % of the cap: bot | bot has spent $5.00 of its cap of $10.00 for the month"
		w.wantSent(half)
		w.now = w.now.Add(time.Second)
		spend(6)
		w.evaluator = w.restarted()
		w.check()
		w.check()
		most := "budget.threshold | 80 % of the cap: bot | bot has spent $11.00 of its cap of $10.00 for the month"
		all := "budget.exceeded | Cap reached: bot | bot has spent $11.00 of its cap of $10.00 for the month"
		w.wantSent(half, all, most)
		w.now = w.now.Add(time.Second)
		if err := caps.Reset(t.Context(), scope, b.Window(w.now), nil); err != nil {
			t.Fatal(err)
		}
		w.check()
		spend(5)
		w.check()
		w.wantSent(half, all, most, half)
		w.now = b.Window(w.now).End.Add(time.Hour)
		w.check()
		w.wantSent(half, all, most, half)
		spend(8)
		w.check()
		if got := w.sent(); len(got) != 6 || !strings.HasPrefix(got[5], "budget.threshold | 80 %") {
			t.Errorf("in the next month: %v", got)
		}
		if n := len(w.incidents()); n != 6 {
			t.Errorf("%d incidents, want 6", n)
		}
	})
}
