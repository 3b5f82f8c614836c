package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// exhaust tracks events of cost 10 on every replica until each refuses.
func (w *world) exhaust() {
	w.t.Helper()
	for _, g := range w.gates {
		for range 10_000 {
			forget(g)
			e := w.event(10)
			if _, err := g.Admit(w.t.Context(), &e); err != nil {
				break
			}
			w.write(e)
		}
		g.sweepOnce(w.t.Context())
		g.sweepOnce(w.t.Context())
	}
}

// isSpent fails the test unless what was let through in the present period is this,
// and the database comes to the same once all of it is stored.
func (w *world) isSpent(want schema.NanoUSD) {
	w.t.Helper()
	if got := w.spent(); got != want {
		w.t.Fatalf("let through %s in the period, want %s", got, want)
	}
	for _, g := range w.gates {
		g.sweepOnce(w.t.Context())
		g.sweepOnce(w.t.Context())
	}
	w.store(len(w.kafka))
	if s := w.state(); s.Spent != schema.SumOf(want) || s.Leased != 0 {
		w.t.Fatalf("spent %s, leased %s, want %s and nothing", s.Spent, s.Leased, want)
	}
}

// eachChangedWorld runs f with two replicas and a cap of 1000 a day, on every
// edition.
func eachChangedWorld(t *testing.T, f func(*world)) {
	t.Helper()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 2)
		w.period = budget.Day
		w.put()
		w.reload()
		f(w)
	})
}

// afterAnotherDay uses up a day's cap and goes on to the next day of the same month.
func (w *world) afterAnotherDay() {
	w.t.Helper()
	for w.now.Day() != 20 {
		w.now = w.now.Add(24 * time.Hour)
	}
	w.exhaust()
	w.now = w.now.Add(24 * time.Hour)
}

// What is on its way when a cap gets another period or time zone arrived in the new
// period, too, and counts there before it is stored.
func TestChangedPeriodCountsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	eachChangedWorld(t, func(w *world) {
		w.exhaust()
		for _, change := range []struct {
			period budget.Period
			zone   string
		}{
			{budget.Month, "UTC"}, {budget.Total, "UTC"}, {budget.Week, "Asia/Kolkata"}, {budget.Month, "America/New_York"},
		} {
			w.period, w.zone = change.period, change.zone
			w.put()
			w.reload()
			w.exhaust()
			if got := w.spent(); got != 1000 {
				t.Errorf("a cap of 1000 for a %s of %s lets through %s", w.period, w.zone, got)
			}
		}
		w.isSpent(1000)
	})
}

// A replica that has not heard yet that the period changed gets nothing more of the
// old one.
func TestChangedPeriodReachesReplicas(t *testing.T) {
	t.Parallel()
	eachChangedWorld(t, func(w *world) {
		w.afterAnotherDay()
		w.exhaust()
		w.store(len(w.kafka))
		w.period, w.limit = budget.Month, 1500
		w.put()
		// The day has 500 left under the new limit, but the month has nothing.
		w.exhaust()
		w.isSpent(2000)
		for _, g := range w.gates {
			for scope, m := range *g.meters.Load() {
				if m.budget.Period != budget.Month {
					t.Errorf("%v still has a cap for a %s", scope, m.budget.Period)
				}
			}
		}
	})
}

// An event that waited while others that came later began the next quarter hour
// counts where it is charged, under each of two caps.
func TestEventThatIsOvertakenCountsWhereItIsCharged(t *testing.T) {
	t.Parallel()
	eachChangedWorld(t, func(w *world) {
		w.scope.Agent = ""
		w.put()
		w.scope.Agent = "a"
		w.reload()
		g := w.gates[0]
		late := w.event(10)
		later := w.event(10)
		later.Agent, later.ReceivedAt = "b", late.ReceivedAt.Add(budget.Bucket)
		for _, e := range []*schema.Event{&later, &late} {
			if _, err := g.Admit(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			w.write(*e)
		}
		if want := later.ReceivedAt.Truncate(budget.Bucket); !late.ReceivedAt.Equal(want) || len(late.Leases) != 2 {
			t.Errorf("arrived at %v under %d leases, want %v and 2", late.ReceivedAt, len(late.Leases), want)
		}
		var buckets int
		err := w.pool.QueryRow(t.Context(), `SELECT count(DISTINCT bucket) FROM budget_leases WHERE lease_id = ANY($1)`, late.Leases).Scan(&buckets)
		if err != nil || buckets != 1 {
			t.Errorf("its leases are of %d quarter hours, %v", buckets, err)
		}
	})
}

// A cap that is removed and set again in the same period knows what was spent
// before, what is on its way, and what a reset has taken out.
func TestCapThatComesBack(t *testing.T) {
	t.Parallel()
	eachChangedWorld(t, func(w *world) {
		w.exhaust()
		w.store(len(w.kafka) / 2)
		w.reset()
		for range 30 {
			e := w.event(10)
			if _, err := w.gates[0].Admit(t.Context(), &e); err != nil {
				t.Fatal(err)
			}
			w.write(e)
		}
		w.remove()
		w.reload()
		w.put()
		w.reload()
		w.exhaust()
		if got := w.spent(); got != 1000 {
			t.Errorf("after a reset a cap of 1000 that was removed and set again lets through %s", got)
		}
		w.isSpent(1000)
		w.settled()
		w.isSpent(1000)
	})
}

// A reset takes out what was spent before it in the period that was reset, and no
// more, also when the cap gets another period afterwards.
func TestResetOutlivesAChangeOfThePeriod(t *testing.T) {
	t.Parallel()
	eachChangedWorld(t, func(w *world) {
		w.afterAnotherDay()
		w.exhaust()
		w.store(150)
		w.reset()
		for range 3 {
			e := w.event(10)
			if _, err := w.gates[0].Admit(t.Context(), &e); err != nil {
				t.Fatal(err)
			}
			w.write(e)
		}
		w.period, w.limit, w.highest = budget.Month, 1500, 1500
		w.put()
		w.reload()
		w.exhaust()
		w.isSpent(1500) // 1000 of yesterday, 30 and 470 of today since the reset.
		w.settled()
		w.period = budget.Day
		w.put()
		w.reload()
		w.isSpent(500)
	})
}
