package reprice

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/upkeep"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/reprice"
	"github.com/outlayhq/outlay/schema/schematest"
)

// tried is a try at a job that the test does slice by slice.
type tried struct {
	*Repricer
	*ledger
	state reprice.State
	book  *price.Book
	try   int
}

// start begins a try, and gives up the one before.
func (l *ledger) start(id string) *tried {
	l.t.Helper()
	jobID, err := schema.ParseID(job.Prefix, id)
	if err != nil {
		l.t.Fatal(err)
	}
	try := schematest.StartJob(l.t, l.pool, jobID)
	store := reprice.NewStore(l.pool)
	state, err := store.State(l.t.Context(), l.account, jobID)
	if err != nil {
		l.t.Fatal(err)
	}
	book, err := store.Book(l.t.Context(), &state)
	if err != nil {
		l.t.Fatal(err)
	}
	r := &Repricer{
		Deps{Pool: l.pool, Topic: topic, Log: slog.New(slog.DiscardHandler)}, newMetrics(prometheus.NewRegistry()),
	}
	return &tried{r, l, state, book, try.Attempt}
}

// next reads and prices the next slice, up to a time.
func (s *tried) next(end time.Time) *slice {
	s.t.Helper()
	events, err := s.Repricer.read(s.t.Context(), &s.state, end)
	if err != nil {
		s.t.Fatal(err)
	}
	next := &slice{next: reprice.Before(end)}
	for i := range events {
		if err := next.add(&events[i], s.book); err != nil {
			s.t.Fatal(err)
		}
	}
	return next
}

// A slice is saved once, by the try that has the job: another try, the same slice again, and one whose events are not as they
// were read, change nothing.
func TestSliceIsSavedOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db)
		now := time.Now().UTC().Truncate(time.Microsecond)
		l.fleet(now, 300)
		l.newPrices()
		id := l.begin(body(now.Add(-30*day), now, ""))
		given, middle := l.start(id), now.Add(-10*day)
		first := given.next(middle)
		taken := l.start(id)
		if err := given.save(t.Context(), given.try, &given.state, first); !errors.Is(err, job.ErrLost) {
			t.Errorf("a try that was given up saves: %v", err)
		}
		if err := taken.save(t.Context(), taken.try, &taken.state, first); err != nil || len(first.changes) == 0 {
			t.Fatalf("save %d changes: %v", len(first.changes), err)
		}
		after := l.stored()
		if err := taken.save(t.Context(), taken.try, &taken.state, first); pgdb.SQLState(err) != stateMoved {
			t.Errorf("a slice saves again: %v", err)
		}
		taken.state.Slice, taken.state.Next = 1, first.next
		second := taken.next(now)
		l.exec(`UPDATE events SET cost_nano_usd = cost_nano_usd + 1 WHERE event_id = $1`, second.changes[3].Event)
		if err := taken.save(t.Context(), taken.try, &taken.state, second); pgdb.SQLState(err) != stateMoved || !passing(err) {
			t.Errorf("a slice saves though an event has changed: %v", err)
		}
		l.exec(`UPDATE events SET cost_nano_usd = cost_nano_usd - 1 WHERE event_id = $1`, second.changes[3].Event)
		if diff := cmp.Diff(after, l.stored()); diff != "" {
			t.Errorf("what was refused changed events:\n%.1000s", diff)
		}
		if err := taken.save(t.Context(), taken.try, &taken.state, second); err != nil {
			t.Error(err)
		}
		state, err := reprice.NewStore(l.pool).State(t.Context(), l.account, taken.state.JobID)
		if err != nil || state.Slice != 2 || !state.Next.Time.Equal(second.next.Time) {
			t.Errorf("the job stands at %+v, %v", state, err)
		}
		if db.Edition == migrations.Community {
			l.refresh()
		}
		l.checkSums()
	})
}

// A dry run counts a slice once, though no event keeps it from being saved again.
func TestDryRunCountsASliceOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t, schematest.Database(t))
	now := time.Now().UTC().Truncate(time.Microsecond)
	l.fleet(now, 100)
	l.newPrices()
	try := l.start(l.begin(body(now.Add(-30*day), now, `,"dry_run":true`)))
	all := try.next(now)
	if err := try.save(t.Context(), try.try, &try.state, all); err != nil || len(all.changes) == 0 {
		t.Fatalf("save %d changes: %v", len(all.changes), err)
	}
	if err := try.save(t.Context(), try.try, &try.state, all); pgdb.SQLState(err) != stateMoved {
		t.Errorf("a slice saves again: %v", err)
	}
	var counted int
	if err := l.pool.QueryRow(t.Context(), `SELECT sum(events) FROM reprice_differences`).Scan(&counted); err != nil || counted != len(all.changes) {
		t.Errorf("%d changes are counted, want %d, %v", counted, len(all.changes), err)
	}
}

// refresh brings the rollups up to date, unless somebody else is just doing so.
func (l *ledger) refresh() {
	l.t.Helper()
	conn, err := l.pool.Acquire(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Release()
	for done := false; !done; {
		if done, err = upkeep.RefreshRollups(l.t.Context(), conn.Conn(), time.Now()); err != nil {
			l.t.Fatal(err)
		}
	}
}

// Slices end between any two events, also between such as differ in nothing but their place in Kafka.
func TestSlicesMissNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t, schematest.Database(t))
	at := time.Now().Add(-time.Hour)
	var events []schema.Event
	for range sliceEvents + 500 {
		e := l.event(at, at)
		e.ID, e.Model, e.SessionID, e.SessionImplicit = schema.ID{15: 1}, "in-house-7b", "ses_s", false
		e.Source, e.Cost, e.PriceID, e.Breakdown = schema.CostUnpriced, 0, "", nil
		events = append(events, e)
	}
	l.store(events...)
	l.upkeep(t)
	l.run(t)
	l.newPrices()
	done := l.reprice(body(at.Add(-time.Hour), at.Add(time.Hour), ""))
	if done.Changed != int64(len(events)) || done.UnpricedAfter != 0 {
		t.Errorf("changed %+v, want %d", done, len(events))
	}
	l.checkSums()
}

// Sums outlive the events that retention drops: what is there of a month is repriced, and the sums of what is gone stay as they were.
func TestRepriceAfterRetention(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db)
		conn, err := pgx.Connect(t.Context(), db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		now := time.Now()
		for _, age := range []time.Duration{110 * day, 89*day + 20*time.Hour, 80 * day, 50 * day, 20 * day} {
			for range 10 {
				e := l.event(now.Add(-age), now.Add(-age))
				e.Model, e.Provider, e.SessionID, e.SessionImplicit = "in-house-7b", "", "ses_s", false
				e.Source, e.Cost, e.PriceID, e.Breakdown, e.InputTokens = schema.CostUnpriced, 0, "", nil, 1000
				l.store(e)
			}
		}
		l.materialise()
		if err := migrations.Up(t.Context(), conn, migrations.Options{RawRetention: 90 * day, Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		if _, err := upkeep.DropExpired(t.Context(), conn, now); err != nil {
			t.Fatal(err)
		}
		left := l.number(`SELECT count(*) FROM events`)
		if left < 30 || left > 40 { // Chunks are dropped whole.
			t.Fatalf("retention left %d of 50 events", left)
		}
		l.upkeep(t)
		l.run(t)
		l.newPrices()
		if done := l.reprice(body(now.Add(-365*day), now, "")); done.Changed != left {
			t.Errorf("changed %+v, want the %d events that are left", done, left)
		}
		if events, unpriced := l.number(`SELECT sum(events)::bigint FROM usage_daily`), l.number(`SELECT sum(unpriced_events)::bigint FROM usage_daily`); events != 50 || unpriced != 50-left {
			t.Errorf("%d events and %d unpriced in the sums, want 50 and %d", events, unpriced, 50-left)
		}
	})
}

// Events that are received after it was asked for keep the price that they came with.
func TestRepriceLeavesLaterEventsAlone(t *testing.T) {
	t.Parallel()
	l := newLedger(t, schematest.Database(t))
	now := time.Now()
	l.upkeep(t)
	l.newPrices()
	early, late := l.event(now.Add(-3*day), now.Add(-time.Hour)), l.event(now.Add(-3*day), now.Add(time.Hour))
	for _, e := range []*schema.Event{&early, &late} {
		e.Model, e.Provider, e.InputTokens, e.Source, e.Cost, e.PriceID, e.Breakdown = "in-house-7b", "", 1000, schema.CostUnpriced, 0, "", nil
	}
	l.store(early, late)
	l.run(t)
	if done := l.reprice(body(now.Add(-30*day), now, "")); done.Events != 1 || done.Changed != 1 {
		t.Errorf("changed %+v, want one event", done)
	}
	if got := l.stored()[late.ID]; got != text(&late) {
		t.Errorf("the later event is %s, want it as it came", got)
	}
	l.checkSums()
}

// A processor goes on storing events of the same time while they are repriced, in rows that both change.
func TestRepriceAmongBatches(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db)
		now := time.Now()
		l.fleet(now, 2000)
		l.materialise()
		l.upkeep(t)
		l.run(t)
		l.newPrices()
		id := l.begin(body(now.Add(-30*day), now.Add(time.Hour), ""))
		for state := ""; state != "done"; {
			for range 5 {
				batch := make([]schema.Event, 100)
				for i := range batch {
					received := time.Now()
					batch[i] = l.event(received.Add(-time.Duration(l.random.Int64N(int64(20*day)))), received)
				}
				l.store(batch...)
			}
			var j jobReply
			l.get("/v1/jobs/"+id, &j)
			if state = j.State; state == "failed" {
				t.Fatalf("the job failed: %s", *j.Error)
			}
		}
		l.refresh()
		l.checkSums()
	})
}

// number returns the only value of a query.
func (l *ledger) number(query string) (n int64) {
	l.t.Helper()
	if err := l.pool.QueryRow(l.t.Context(), query).Scan(&n); err != nil {
		l.t.Fatal(err)
	}
	return n
}
