package reprice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/tariff"
)

const day = 24 * time.Hour

// fleet is three weeks of events, of which some are late and some go on with a session that was made for an event.
func (l *ledger) fleet(now time.Time, n int) {
	l.t.Helper()
	events := make([]schema.Event, 0, n)
	for i := range n {
		age := time.Duration(l.random.Int64N(int64(20 * day)))
		if i%10 == 0 {
			age = time.Duration(l.random.Int64N(int64(2 * time.Hour)))
		}
		at := now.Add(-age)
		received := at.Add(time.Second)
		if i%7 == 0 {
			received = at.Add(age / 2)
		}
		e := l.event(at, received)
		events = append(events, e)
		if e.SessionImplicit && i%3 == 0 && age > time.Minute {
			next := l.event(at.Add(time.Second), received.Add(time.Second))
			next.SessionID, next.SessionImplicit = e.SessionID, false
			events = append(events, next)
		}
	}
	l.store(events...)
}

// newPrices are an account's own: another for a model that has one, and one for a model that has none.
func (l *ledger) newPrices() *price.Book {
	l.t.Helper()
	l.ask(http.MethodPost, "/v1/prices/overrides", `{"match":"gpt-4o","input_usd_per_mtok":1.234567,"output_usd_per_mtok":7.7,"cache_read_usd_per_mtok":0.000001}`, http.StatusCreated)
	l.ask(http.MethodPost, "/v1/prices/overrides", `{"match":"in-house-*","input_usd_per_mtok":0.1,"output_usd_per_mtok":0.333333}`, http.StatusCreated)
	own, err := tariff.NewStore(l.pool).OfAccount(l.t.Context(), l.account)
	if err != nil {
		l.t.Fatal(err)
	}
	overrides := make([]price.Override, len(own))
	for i := range own {
		overrides[i] = own[i].Override
	}
	return price.Default().With(overrides)
}

// repriced returns what the events that were stored are to be, and how many are to change. Those of a time and a model only, if
// model is not empty.
func (l *ledger) repriced(book *price.Book, from, to time.Time, model string) (want map[schema.ID]string, changed int64) {
	l.t.Helper()
	want = map[schema.ID]string{}
	for _, e := range l.all {
		before := text(&e)
		fits := !e.Time.Before(from) && e.Time.Before(to) && (model == "" || e.Model == model)
		if fits && (e.Source == schema.CostCalculated || e.Source == schema.CostUnpriced) {
			l.price(&e, book)
		}
		want[e.ID] = text(&e)
		if want[e.ID] != before {
			changed++
		}
	}
	return want, changed
}

func body(from, to time.Time, more string) string {
	return fmt.Sprintf(`{"from":%q,"to":%q%s}`, from.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano), more)
}

// Repricing gives every event what the pinned book states and corrects all that is summed from it; a dry run states the same and
// changes nothing.
func TestRepriceCorrectsEverySum(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db)
		now := time.Now()
		l.fleet(now, 3000)
		l.checkSums()
		l.materialise()
		l.store(l.event(now.Add(-3*day), now.Add(-time.Minute)), l.event(now.Add(-time.Minute), now)) // Not folded, and noted as late.
		l.checkSessionsPending()
		l.upkeep(t)
		r := l.run(t)
		book := l.newPrices()
		from, to := now.Add(-15*day-1234*time.Microsecond), now.Add(-time.Minute)
		want, changed := l.repriced(book, from, to, "")
		before := l.stored()

		dry := l.reprice(body(from, to, `,"dry_run":true`))
		if diff := cmp.Diff(before, l.stored()); diff != "" {
			t.Fatalf("a dry run changed events:\n%.1000s", diff)
		}
		if dry.Changed != changed || changed == 0 || dry.UnpricedAfter >= dry.UnpricedBefore {
			t.Errorf("the dry run would change %+v; want %d events", dry, changed)
		}
		l.refresh()
		l.checkSums()

		done := l.reprice(body(from, to, ""))
		if diff := cmp.Diff(dry, done); diff != "" {
			t.Errorf("not what the dry run found (-dry +real):\n%.2000s", diff)
		}
		if diff := cmp.Diff(want, l.stored()); diff != "" {
			t.Errorf("events (-want +got):\n%.2000s", diff)
		}
		l.checkSums()
		l.checkEndpoints(now.Add(-29*day).Truncate(day), now.Add(day).Truncate(day))
		l.checkRevisions(before, want)
		l.checkEventShowsRevision(before, want)
		l.checkResult(done)
		if got := testutil.ToFloat64(metricValue(t, r, "outlay_processor_repriced_events_total")); got != float64(changed) {
			t.Errorf("%v events are counted as repriced, want %d", got, changed)
		}
		l.exec(`SELECT fold_sessions(1000000)`)
		l.checkSums()

		if again := l.reprice(body(from, to, "")); again.Changed != 0 || len(again.Rows) != 0 || again.Events != done.Events {
			t.Errorf("the same once more changed %+v", again)
		}
	})
}

// checkSessionsPending fails unless some sessions are still to be folded, which the test is about as well.
func (l *ledger) checkSessionsPending() {
	l.t.Helper()
	var folded, implicit int
	err := l.pool.QueryRow(l.t.Context(), `
		SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM events e JOIN sessions USING (account_id, session_id) WHERE session_implicit AND cost_source IN ('calculated', 'unpriced'))`).Scan(&folded, &implicit)
	if err != nil || folded == 0 || implicit == 0 {
		l.t.Fatalf("%d sessions are folded, %d of them began as implicit ones, %v", folded, implicit, err)
	}
}

// checkRevisions wants one revision for each event that changed, with what it was.
func (l *ledger) checkRevisions(before, after map[schema.ID]string) {
	l.t.Helper()
	rows, _ := l.pool.Query(l.t.Context(), `SELECT event_id, cost_nano_usd || ' ' || cost_source || ' ' || coalesce(price_id, 'no price') FROM event_revisions`)
	got := map[schema.ID]string{}
	var id schema.ID
	var was string
	_, err := pgx.ForEachRow(rows, []any{&id, &was}, func() error {
		if got[id] != "" {
			l.t.Errorf("event %x has two revisions", id)
		}
		got[id] = was
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for id, text := range before {
		if (text != after[id]) != (got[id] != "") {
			l.t.Errorf("event %x was %q, is %q, and its revision is %q", id, text, after[id], got[id])
		} else if n := len(got[id]); got[id] != "" && text[:n] != got[id] {
			l.t.Errorf("the revision of %q is %q", text, got[id])
		}
	}
}

// checkEventShowsRevision wants what an event cost before with the event.
func (l *ledger) checkEventShowsRevision(before, after map[schema.ID]string) {
	l.t.Helper()
	for _, e := range l.all {
		if before[e.ID] == after[e.ID] || e.Source != schema.CostCalculated {
			continue
		}
		var shown struct {
			Cost      json.Number `json:"cost_usd"`
			Revisions []struct {
				Cost    schema.NanoUSD `json:"cost_usd"`
				Source  string         `json:"cost_source"`
				PriceID string         `json:"price_id"`
			}
		}
		l.get("/v1/events/"+e.ID.Text(schema.EventPrefix), &shown)
		if len(shown.Revisions) != 1 || shown.Revisions[0].Cost != e.Cost || shown.Revisions[0].PriceID != e.PriceID || shown.Cost == "" {
			l.t.Errorf("an event that cost %s by %s is shown as %+v", e.Cost, e.PriceID, shown)
		}
		return
	}
}

// checkResult wants rows that add up to the totals.
func (l *ledger) checkResult(r *result) {
	l.t.Helper()
	var events, were, are int64
	for _, row := range r.Rows {
		events += row.Events
		were += row.UnpricedBefore
		are += row.UnpricedAfter
	}
	if events != r.Changed || were != r.UnpricedBefore || are != r.UnpricedAfter || r.RowsLeftOut != 0 {
		l.t.Errorf("rows add up to %d events, %d and %d unpriced; the totals are %+v", events, were, are, r)
	}
	var revised, now string
	err := l.pool.QueryRow(l.t.Context(), `
		SELECT sum(r.cost_nano_usd), sum(e.cost_nano_usd) FROM event_revisions r JOIN events e USING (account_id, event_id, ts)`).Scan(&revised, &now)
	if err != nil {
		l.t.Fatal(err)
	}
	if nano(l.t, r.Before) != revised || nano(l.t, r.After) != now {
		l.t.Errorf("before and after are %s and %s USD; want %s and %s nano-dollars", r.Before, r.After, revised, now)
	}
}

// Only events of the model are repriced, if one is named.
func TestRepriceOfOneModel(t *testing.T) {
	t.Parallel()
	l := newLedger(t, schematest.Database(t))
	now := time.Now()
	l.fleet(now, 500)
	l.upkeep(t)
	l.run(t)
	book := l.newPrices()
	from, to := now.Add(-30*day), now
	want, changed := l.repriced(book, from, to, "in-house-7b")
	done := l.reprice(body(from, to, `,"model":"in-house-7b"`))
	if done.Changed != changed || done.UnpricedBefore != changed || done.UnpricedAfter != 0 || changed == 0 {
		t.Errorf("changed %+v, want %d events that were unpriced", done, changed)
	}
	if diff := cmp.Diff(want, l.stored()); diff != "" {
		t.Errorf("events (-want +got):\n%.2000s", diff)
	}
	l.checkSums()
}

// With the prices that events have, nothing changes: what ingest makes of a provider and a model comes to the same again.
func TestRepriceWithTheSamePricesChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t, schematest.Database(t))
	now := time.Now()
	var events []schema.Event
	for i, entry := range price.Default().Entries("", now) {
		for _, provider := range []string{"", entry.Provider, "somebody"} {
			e := l.event(now.Add(-time.Duration(i)*time.Minute), now.Add(-time.Minute))
			e.Provider, e.Model = provider, entry.Model
			if i%3 == 0 {
				e.Model = entry.Provider + "/" + entry.Model
			}
			e.InputTokens, e.Source = 300_000, ""
			l.price(&e, price.Default())
			events = append(events, e)
		}
	}
	l.store(events...)
	l.run(t)
	if done := l.reprice(body(now.Add(-30*day), now, "")); done.Changed != 0 || done.Events == 0 {
		t.Errorf("changed %+v", done)
	}
}

// What a cap's period has spent follows, and what a reset has taken out stays out.
func TestRepriceFollowsBudgets(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db)
		caps := budget.NewStore(l.pool)
		scopes := []budget.Scope{{AccountID: l.account, Agent: "agent-1"}, {AccountID: l.account}}
		for _, scope := range scopes {
			if err := caps.Put(t.Context(), budget.Budget{Scope: scope, Limit: 1e12, Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow, AlertAt: []float64{}}); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		l.fleet(now.Add(-time.Minute), 300)
		b, err := caps.Get(t.Context(), scopes[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := caps.Reset(t.Context(), scopes[0], b.Window(time.Now()), nil); err != nil {
			t.Fatal(err)
		}
		reset := time.Now()
		for range 50 {
			at := time.Now()
			l.store(l.event(at, at))
		}
		l.upkeep(t)
		l.run(t)
		l.newPrices()
		if done := l.reprice(body(now.Add(-30*day), time.Now().Add(time.Minute), "")); done.Changed < 100 {
			t.Fatalf("changed %+v", done)
		}
		l.checkSums()
		for i, scope := range scopes {
			var want, got string
			since := time.Time{}
			if i == 0 {
				since = reset
			}
			err := l.pool.QueryRow(t.Context(), `
				SELECT (SELECT coalesce(sum(cost_nano_usd), 0) FROM events WHERE account_id = $1 AND ($2 = '' OR agent = $2) AND received_at >= $3)::text,
					budget_spent($1, $2, '-infinity', 'infinity')::text`, l.account, scope.Agent, since).Scan(&want, &got)
			if err != nil || want != got || want == "0" {
				t.Errorf("spent of %q is %s, want %s, %v", scope.Agent, got, want, err)
			}
		}
	})
}
