package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// shows tracks an event and fails the test unless the answer shows this as spent and
// as the cap.
func (w *world) shows(g *Gate, cost, spent, limit schema.NanoUSD) {
	w.t.Helper()
	e := w.event(cost)
	charge, err := g.Admit(w.t.Context(), &e)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(e)
	if s, ok := charge.Standing(); !ok || s.Spent != spent || s.Budget.Limit != limit {
		w.t.Fatalf("after an event of %d: spent %d of %d, want %d of %d", cost, s.Spent, s.Budget.Limit, spent, limit)
	}
}

// checksAs fails the test unless a question without an event is answered so.
func (w *world) checksAs(g *Gate, spent, limit schema.NanoUSD) {
	w.t.Helper()
	s, ok, err := g.Standing(w.t.Context(), w.scope)
	if err != nil || !ok || s.Spent != spent || s.Budget.Limit != limit {
		w.t.Fatalf("asked: spent %d of %d (%v), want %d of %d", s.Spent, s.Budget.Limit, err, spent, limit)
	}
}

// What is shown as spent is what is stored and what this replica has recorded besides,
// never what is leased, through every change of shares, and also above the cap; and
// the cap is the one that the database knows.
func TestSpentIsWhatIsSpent(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 2)
		one, two := w.gates[0], w.gates[1]
		w.checksAs(one, 0, 1000)
		w.shows(one, 10, 10, 1000)
		w.shows(two, 20, 20, 1000) // What the first one holds and has recorded is not known to be spent.
		w.checksAs(two, 20, 1000)
		w.shows(one, free, 10, 1000)
		w.store(2)
		w.checksAs(one, 30, 1000)
		w.shows(one, 5, 35, 1000)
		// An unused share goes back, another quarter hour begins: nothing of it is spent.
		one.sweepOnce(t.Context())
		one.sweepOnce(t.Context())
		w.shows(one, 3, 38, 1000)
		w.now = w.now.Add(budget.Bucket)
		w.shows(one, 2, 40, 1000)
		one.sweepOnce(t.Context())
		w.store(100)
		w.settled()
		w.shows(one, 1, 41, 1000)
		w.checksAs(one, 41, 1000)
		// An event of which nobody knows whether it is recorded counts, one that is not does not.
		e := w.event(7)
		charge, err := one.Admit(t.Context(), &e)
		if err != nil {
			t.Fatal(err)
		}
		charge.Taint()
		w.shows(one, 4, 52, 1000)
		w.store(100)
		// The event that crosses the cap.
		w.shows(two, 2000, 2045, 1000)
		w.refuses(two, free)
		w.checksAs(two, 2045, 1000)
		// A raised cap is shown by the first answer, before this replica is notified.
		w.limit = 5000
		w.put()
		forget(two)
		w.shows(two, 1, 2046, 5000)
		w.checksAs(one, 52, 5000)
		w.store(100)
		w.checksAs(two, 2046, 5000)
		w.reset()
		w.checksAs(one, 0, 5000)
		w.shows(two, 9, 9, 5000)
		// Another period: the month holds what the day did.
		w.period = budget.Month
		w.put()
		w.reload()
		w.checksAs(two, 9, 5000)
		w.shows(two, 1, 10, 5000)
	})
}

// With the database away the figure goes on from what it was; and when it turns out
// that less is spent, because events were repriced, that is shown.
func TestSpentIsKnownWithTheDatabaseAway(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), db.Pool, 1000, 1)
	g := w.gates[0]
	w.shows(g, 10, 10, 1000)
	w.store(1)
	w.checksAs(g, 10, 1000)
	w.exec(`UPDATE spend SET cost_nano_usd = 4 WHERE account_id = $1`, w.scope.AccountID)
	w.checksAs(g, 4, 1000)
	db.Pool.Close()
	w.shows(g, 3, 7, 1000)
	w.checksAs(g, 7, 1000)
	if s, ok := g.Known(t.Context(), w.scope); !ok || s.Spent != 7 {
		t.Errorf("Known = %+v, %v", s, ok)
	}
}

// Who asks at the same time is answered by one question to the database, and never by
// one that was put before.
func TestStandingIsAskedOnceForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(0, 0)), schematest.Database(t).Pool, 1000, 1)
	m := (*w.gates[0].meters.Load())[w.scope]
	answer := figures{limit: 1000, spent: 5, used: []*int64{nil}}
	first, mine, ok := m.look(w.now, 0)
	if !mine || ok {
		t.Fatal("the first does not ask")
	}
	const second, third = 1, 1 // They came while the first question was under way.
	if c, mine, ok := m.look(w.now, second); c != first || mine || ok {
		t.Fatal("a second question is put while the first is under way")
	}
	m.looked(first, answer)
	m.finish(first)
	if _, _, ok := m.look(w.now, 0); !ok {
		t.Error("the first is not answered")
	}
	next, mine, ok := m.look(w.now, second)
	if !mine || ok {
		t.Fatal("the second is answered by the question before")
	}
	if c, mine, ok := m.look(w.now, third); c != next || mine || ok {
		t.Error("the third puts a question of its own")
	}
	m.looked(next, answer)
	m.finish(next)
	for _, since := range []int{second, third} {
		if _, _, ok := m.look(w.now, since); !ok {
			t.Error("not answered by the question after it came")
		}
	}
	failing, mine, _ := m.look(w.now, m.calls())
	if !mine {
		t.Fatal("no new question")
	}
	m.lookFailed(failing)
	m.finish(failing)
	if c, _, ok := m.look(w.now, 2); c != nil || ok {
		t.Error("who came before a question that failed asks again")
	}
}
