package budget_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// ledger is one capped agent in a database, of which ingest's and the processor's
// steps are made by hand.
type ledger struct {
	t       *testing.T
	pool    *pgxpool.Pool
	store   *budget.Store
	scope   budget.Scope
	epoch   int
	replica schema.ID
	window  budget.Window
	now     time.Time
}

// newLedger has a cap of 1000 nano-dollars a day.
func newLedger(t *testing.T, pool *pgxpool.Pool) *ledger {
	t.Helper()
	now := time.Now().UTC()
	l := &ledger{
		t: t, pool: pool, store: budget.NewStore(pool), replica: schema.NewID(now), now: now,
		scope: budget.Scope{AccountID: schema.NewID(now), Agent: "a"},
	}
	l.window = (&budget.Budget{Period: budget.Day, Timezone: "UTC"}).Window(now)
	l.exec(`INSERT INTO accounts (id, name) VALUES ($1, 'test')`, l.scope.AccountID)
	l.put(1000)
	return l
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) put(limit schema.NanoUSD) {
	l.t.Helper()
	b := budget.Budget{Scope: l.scope, Limit: limit, Period: budget.Day, Timezone: "UTC", OnUnpriced: budget.Allow}
	if err := l.store.Put(l.t.Context(), b); err != nil {
		l.t.Fatal(err)
	}
}

// none is what lease answers for a lease that may not be used any more.
const none = -1

// lease asks for more of a lease and returns what was granted and what is left.
func (l *ledger) lease(id schema.ID, need, want int64) (granted, remaining int64) {
	l.t.Helper()
	const ask = `SELECT coalesce(granted, -1), coalesce(of_limit - spent - leased, -1)::bigint FROM lease_budget($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	err := l.pool.QueryRow(l.t.Context(), ask, l.scope.AccountID, l.scope.Agent, l.window.Start, l.window.End, l.epoch, id, l.replica, need, want).
		Scan(&granted, &remaining)
	if err != nil {
		l.t.Fatal(err)
	}
	return granted, remaining
}

// grants fails the test unless a lease is granted exactly this.
func (l *ledger) grants(id schema.ID, need, want, granted, remaining int64) {
	l.t.Helper()
	if g, r := l.lease(id, need, want); g != granted || r != remaining {
		l.t.Fatalf("asked for %d to %d: granted %d of which %d remain, want %d and %d", need, want, g, r, granted, remaining)
	}
}

func (l *ledger) settle(id schema.ID, keep int64, closes bool) {
	l.t.Helper()
	l.exec(`SELECT settle_lease($1, $2, $3, $4, $5, $6, $7, $8)`,
		l.scope.AccountID, l.scope.Agent, l.window.Start, l.epoch, id, l.replica, keep, closes)
}

// save stores an event under a lease as the processor does: cost moves from leased
// to spent.
func (l *ledger) save(id schema.ID, cost int64) {
	l.t.Helper()
	l.exec(`UPDATE budget_leases SET used_nano_usd = used_nano_usd + $2, stored_nano_usd = stored_nano_usd + $2 WHERE lease_id = $1`, id, cost)
	l.spend(cost)
}

// spend stores an event that came under no lease.
func (l *ledger) spend(cost int64) {
	l.t.Helper()
	l.exec(`INSERT INTO spend AS s (account_id, agent, bucket, cost_nano_usd, events) VALUES ($1, $2, $3, $4, 1) ON CONFLICT (account_id, agent, bucket)
		DO UPDATE SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + 1`,
		l.scope.AccountID, l.scope.Agent, l.now.Truncate(15*time.Minute), cost)
}

func (l *ledger) drop(ids ...schema.ID) {
	l.t.Helper()
	l.exec(`SELECT drop_leases($1)`, ids)
}

func (l *ledger) reset() {
	l.t.Helper()
	if err := l.store.Reset(l.t.Context(), l.scope, l.window, nil); err != nil {
		l.t.Fatal(err)
	}
	l.epoch++
}

// stands fails the test unless the cap stands exactly here.
func (l *ledger) stands(spent, leased schema.NanoUSD) {
	l.t.Helper()
	state, err := l.store.State(l.t.Context(), l.scope, l.window)
	if err != nil {
		l.t.Fatal(err)
	}
	if state.Spent != schema.SumOf(spent) || state.Leased != leased {
		l.t.Fatalf("spent %s, leased %d, want %d and %d", state.Spent, state.Leased, spent, leased)
	}
}

func (l *ledger) newLease() schema.ID { return schema.NewID(l.now) }

// eachLedger runs f with a ledger on every edition of the database.
func eachLedger(t *testing.T, f func(*testing.T, *ledger)) {
	t.Helper()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) { f(t, newLedger(t, db.Pool)) })
}

// What is granted beyond need is at most an eighth of what is left, and the event
// that crosses the cap is granted whole; then nothing is.
func TestGrantsShrinkUntilOneCrossesTheCap(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		one, two := l.newLease(), l.newLease()
		l.grants(one, 10, 5000, 125, 875)
		l.grants(two, 200, 5000, 200, 675)
		l.grants(one, 0, 40, 40, 635)
		l.stands(0, 365)
		l.grants(one, 900, 900, 900, -265)
		l.grants(two, 1, 1, 0, -265)
		l.grants(two, 0, 0, 0, -265)
		l.stands(0, 1265)
	})
}

// The last nano-dollar is granted, and with it the cap is reached.
func TestExactlyReachedIsReached(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		one := l.newLease()
		l.grants(one, 999, 999, 999, 1)
		l.grants(one, 0, 1000, 0, 1) // An eighth of it is less than the smallest amount.
		l.grants(one, 1, 1, 1, 0)
		l.grants(one, 1, 1, 0, 0)
		l.put(0)
		l.grants(l.newLease(), 0, 0, 0, -1000)
	})
}

// Stored cost moves from leased to spent, what was granted and is not used comes
// back, however often it is said, and never more than that.
func TestSettleGivesBackOnce(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		id := l.newLease()
		l.grants(id, 100, 100, 100, 900)
		l.save(id, 30)
		l.stands(30, 70)
		for range 3 {
			l.settle(id, 60, false)
			l.stands(30, 30)
		}
		l.settle(id, 200, false) // More than was granted: not said by anybody who is right.
		l.stands(30, 30)
		l.grants(id, 10, 10, 10, 930)
		l.settle(id, 30, true)
		l.settle(id, 30, true)
		l.stands(30, 0)
		l.drop(id)
		l.stands(30, 0)
	})
}

// A closed lease is granted nothing any more, also not by a request that was sent
// before it was closed and arrives later, whether or not the database knew it.
func TestClosedLeaseIsGrantedNothing(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		known, unknown := l.newLease(), l.newLease()
		l.grants(known, 100, 100, 100, 900)
		l.settle(known, 0, true)
		l.grants(known, 100, 100, none, none)
		l.settle(unknown, 0, true)
		l.grants(unknown, 100, 100, none, none)
		l.stands(0, 0)
		// So is one whose replica was taken for dead.
		dead := l.newLease()
		l.grants(dead, 100, 100, 100, 900)
		l.exec(`UPDATE budget_leases SET barrier = '{}' WHERE lease_id = $1`, dead)
		l.grants(dead, 100, 100, none, none)
		l.stands(0, 100)
	})
}

// Settling without closing makes no lease of one that is not there.
func TestSettleOfUnknownLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		l.settle(l.newLease(), 0, false)
		var n int
		if err := l.pool.QueryRow(t.Context(), `SELECT count(*) FROM budget_leases`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d leases, %v", n, err)
		}
	})
}

// A cap that was removed grants nothing; what was leased of it can still be
// settled, stored and dropped, and counts again when the cap comes back.
func TestRemovedBudget(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		id := l.newLease()
		l.grants(id, 100, 100, 100, 900)
		if err := l.store.Delete(t.Context(), l.scope); err != nil {
			t.Fatal(err)
		}
		l.grants(id, 100, 100, none, none)
		l.grants(l.newLease(), 100, 100, none, none)
		l.save(id, 40)
		l.stands(40, 60)
		l.put(1000)
		l.stands(40, 60)
		if err := l.store.Delete(t.Context(), l.scope); err != nil {
			t.Fatal(err)
		}
		l.settle(id, 40, true)
		l.drop(id)
		for name, err := range map[string]error{
			"Delete": l.store.Delete(t.Context(), l.scope),
			"Reset":  l.store.Reset(t.Context(), l.scope, l.window, nil),
		} {
			if !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("%s of a removed cap: %v, want ErrNotFound", name, err)
			}
		}
		if _, err := l.store.Get(t.Context(), l.scope); !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("Get of a removed cap: %v, want ErrNotFound", err)
		}
		l.put(1000)
		l.stands(40, 0)
	})
}

// After a reset nothing is spent or leased; what was accepted before and is stored
// later belongs to what was, before and after its lease is dropped. Events without
// a lease count from their storing.
func TestResetWithEventsOnTheirWay(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		before := l.newLease()
		l.grants(before, 300, 300, 300, 700)
		l.save(before, 50)
		l.spend(7)
		l.stands(57, 250)
		l.reset()
		l.stands(0, 0)
		l.save(before, 100)
		l.stands(0, 0)
		after := l.newLease()
		l.grants(after, 80, 80, 80, 920)
		l.save(after, 80)
		l.save(before, 150)
		l.stands(80, 0)
		l.drop(before)
		l.stands(80, 0)
		l.spend(5)
		l.stands(85, 0)
		l.reset()
		l.drop(after)
		l.stands(0, 0)
		var kept []int64
		err := l.pool.QueryRow(t.Context(), `SELECT array_agg(spent_nano_usd::bigint ORDER BY at) FROM budget_resets`).Scan(&kept)
		if diff := cmp.Diff([]int64{57, 85}, kept); err != nil || diff != "" {
			t.Errorf("what the resets have kept: %v (-want +got):\n%s", err, diff)
		}
	})
}

// A total of years is reset like any other, and what is older than a month of it does
// not take a row for every quarter hour. A cap for a month that comes after knows
// what of the month was taken out.
func TestResetOfALongTotal(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		l.exec(`INSERT INTO spend SELECT $1, $2, at, 10, 1
			FROM generate_series(date_bin('15 minutes', now(), '2000-01-01') - interval '400 days', now(), interval '6 hours') AS at`,
			l.scope.AccountID, l.scope.Agent)
		l.exec(`UPDATE budgets SET period = 'total'`)
		l.window = (&budget.Budget{Period: budget.Total}).Window(l.now)
		l.stands(16010, 0)
		l.reset()
		l.stands(0, 0)
		l.spend(3)
		l.stands(3, 0)
		var rows int
		if err := l.pool.QueryRow(t.Context(), `SELECT count(*) FROM budget_forgiven`).Scan(&rows); err != nil || rows > 140 {
			t.Errorf("%d rows of what was taken out, %v", rows, err)
		}
		for _, period := range []budget.Period{budget.Month, budget.Week, budget.Day} {
			l.exec(`UPDATE budgets SET period = $1`, period)
			l.window = (&budget.Budget{Period: period, Timezone: "Asia/Kolkata"}).Window(l.now)
			l.stands(3, 0)
		}
		l.reset()
		l.reset()
		l.window = (&budget.Budget{Period: budget.Total}).Window(l.now)
		l.stands(0, 0)
	})
}

// A lease of an earlier epoch grants nothing, and a dropped lease of the present
// one takes its spend nowhere.
func TestEpochs(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		id := l.newLease()
		l.reset()
		l.epoch = 0
		l.grants(id, 1, 1, none, none)
		l.epoch = 1
		l.grants(id, 60, 60, 60, 940)
		l.save(id, 60)
		l.drop(id, l.newLease())
		l.stands(60, 0)
		l.drop()
	})
}

// A duplicate uses its lease and is not spent.
func TestDuplicateIsUsedAndNotSpent(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		id := l.newLease()
		l.grants(id, 100, 100, 100, 900)
		l.save(id, 50)
		l.exec(`UPDATE budget_leases SET used_nano_usd = used_nano_usd + 50 WHERE lease_id = $1`, id)
		l.stands(50, 0)
		l.reset()
		l.drop(id)
		l.stands(0, 0)
	})
}

// Another period, another agent and another account have nothing to do with it.
func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		l.grants(l.newLease(), 100, 100, 100, 900)
		l.spend(11)
		whole := *l
		whole.scope.Agent = ""
		whole.put(500)
		whole.stands(0, 0)
		whole.grants(whole.newLease(), 20, 20, 20, 480)
		other := newLedger(t, l.pool)
		other.stands(0, 0)
		yesterday := *l
		yesterday.window = (&budget.Budget{Period: budget.Day, Timezone: "UTC"}).Window(l.window.Start.Add(-1))
		yesterday.stands(0, 0)
		l.stands(11, 100)
		budgets, err := l.store.Page(t.Context(), l.scope.AccountID, nil, 10)
		if err != nil || len(budgets) != 2 || budgets[0].Agent != "" || budgets[1].Agent != "a" {
			t.Errorf("Page = %+v, %v, want the account's cap and the agent's", budgets, err)
		}
		first := ""
		if budgets, err = l.store.Page(t.Context(), l.scope.AccountID, &first, 10); err != nil || len(budgets) != 1 {
			t.Errorf("Page behind the account's cap = %+v, %v", budgets, err)
		}
	})
}

// Refused events are summed over the period: an agent's own, and all of them for
// the account. The sums hold what no bigint can.
func TestStateSumsRefusedEvents(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l *ledger) {
		const refuse = `INSERT INTO refused_events VALUES ($1, $2, $3, 'p', $4, $5, 1, 1, $6)`
		l.exec(refuse, l.scope.AccountID, "a", "m", l.window.Start, 3, 30)
		l.exec(refuse, l.scope.AccountID, "a", "n", l.window.Start, 1, 5)
		l.exec(refuse, l.scope.AccountID, "b", "m", l.window.End.Add(-15*time.Minute), 2, 8)
		l.exec(refuse, l.scope.AccountID, "a", "m", l.window.End, 9, 90)
		l.exec(refuse, l.scope.AccountID, "a", "m", l.window.Start.Add(-15*time.Minute), 9, 90)
		l.exec(refuse, l.scope.AccountID, "", "", l.window.Start, 7, 70) // of agents that were too many to keep apart
		states, err := l.store.States(t.Context(), l.scope.AccountID, []string{"b", "", "a", "c"},
			[]budget.Window{l.window, l.window, l.window, l.window})
		if err != nil {
			t.Fatal(err)
		}
		want := []budget.State{
			{RefusedEvents: 2, RefusedCost: schema.SumOf(int64(8))},
			{RefusedEvents: 13, RefusedCost: schema.SumOf(int64(113))},
			{RefusedEvents: 4, RefusedCost: schema.SumOf(int64(35))},
			{},
		}
		if diff := cmp.Diff(want, states, cmp.AllowUnexported(schema.Sum{})); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		l.exec(`UPDATE refused_events SET cost_nano_usd = 1e19`)
		if states, err = l.store.States(t.Context(), l.scope.AccountID, []string{"a"}, []budget.Window{l.window}); err != nil || states[0].RefusedCost.String() != "20000000000000000000" {
			t.Errorf("more than a bigint: %+v, %v", states, err)
		}
	})
}
