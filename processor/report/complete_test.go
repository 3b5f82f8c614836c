package report

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
)

// complete sets the time up to which everything that was accepted is stored.
func (l *ledger) complete(until time.Time) {
	l.t.Helper()
	l.stored(until)
	l.exec(`UPDATE rollup_progress SET complete_until = $1`, until)
}

// stored is complete but for the rollups.
func (l *ledger) stored(until time.Time) {
	l.t.Helper()
	l.exec(`UPDATE kafka_offsets SET complete_until = $1`, until)
}

// waitsFor waits until the job of a report waits for something that begins with a text, and wants the report to show the same.
func (l *ledger) waitsFor(r report.Report, what string) {
	l.t.Helper()
	t, ok := l.t.(*testing.T)
	if !ok {
		l.t.Fatal("BUG: not a test")
	}
	eventually(t, "the job to wait for "+what, func() bool {
		j, err := job.NewStore(l.pool).Get(t.Context(), l.account, r.JobID)
		if err != nil {
			t.Fatal(err)
		}
		return j.State == job.Running && j.WaitingFor != nil && strings.HasPrefix(*j.WaitingFor, what)
	})
	if got := l.get(r); got.Status != report.Running || got.WaitingFor == nil || !strings.HasPrefix(*got.WaitingFor, what) || got.Complete != nil {
		t.Errorf("the report is %+v", got)
	}
}

func (l *ledger) get(r report.Report) report.Report {
	l.t.Helper()
	got, err := report.NewStore(l.pool).Get(l.t.Context(), l.account, r.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	return got
}

func (l *ledger) file(r report.Report, format report.Format) string {
	l.t.Helper()
	content, err := report.NewStore(l.pool).File(l.t.Context(), l.account, r.ID, format)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(content)
}

// A report that is asked for within seconds of back-dated events waits until they are stored and in the sums: its total, its lines,
// its days and its prices have them all.
func TestReportWaitsForBackDatedEvents(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db.Pool, "Back-dated")
		l.refresh()
		l.complete(time.Now().Add(-5 * time.Second)) // The processor is behind by what was just accepted.
		asked := l.ask(report.Request{From: november, To: november.AddDate(0, 1, 0)})
		runMaker(t, db.Pool, mail.DefaultConfig())
		l.waitsFor(asked, "events that were accepted before ")

		// The events are stored now. Where there are rollups they lack them until they are refreshed.
		late := november.Add(36 * time.Hour)
		l.store(
			call{at: late, agent: "a", provider: "openai", model: "m", in: 10, out: 5, cost: 52_000_000_000, source: "calculated", price: "p@1"},
			// In the period before, whose spend a change is counted against.
			call{at: november.Add(-time.Hour), agent: "a", provider: "openai", model: "m", in: 10, out: 5, cost: 1_000_000_000, source: "calculated", price: "p@1"},
		)
		l.stored(time.Now().Add(time.Hour))
		if db.Edition == migrations.Community {
			l.waitsFor(asked, "events that were accepted before ")
		}
		l.refresh()
		eventually(t, "the report to be ready", func() bool { return l.get(asked).Status == report.Ready })
		if got := l.get(asked); got.Complete == nil || !*got.Complete || got.WaitingFor != nil || got.CompleteUntil == nil || got.CompleteUntil.Before(asked.CreatedAt) {
			t.Errorf("ready as %+v", got)
		}
		sheet := l.file(asked, report.CSV)
		if n := strings.Count(sheet, `,"52",`); n != 5 {
			t.Errorf("$52 is in %d lines, want total, day, agent, model and price:\n%s", n, sheet)
		}
		if !strings.Contains(sheet, `; complete"`) {
			t.Errorf("the documents of complete figures state something else:\n%s", sheet)
		}
		if page := strings.Join(text(t, []byte(l.file(asked, report.PDF))), "\n"); strings.Contains(page, "complete until") {
			t.Errorf("the PDF of complete figures states something else:\n%s", page)
		}
	})
}

// A report whose figures are not complete in time is made as they are, and states so on page 1, in the CSV, in its record and in the
// message.
func TestIncompleteReportStatesSo(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "Behind")
	h := newHook(t)
	l.notifiesTo(h)
	l.store(call{at: november.Add(time.Hour), agent: "a", provider: "openai", model: "m", in: 10, out: 5, cost: 1_000_000_000, source: "calculated", price: "p@1"})
	until := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	l.complete(until)
	asked := l.ask(report.Request{Title: "November", From: november, To: november.AddDate(0, 1, 0), Agents: []string{"a", "b"}})
	runMakerWithin(t, db.Pool, mail.DefaultConfig(), time.Second)
	runNotifier(t, db.Pool)
	eventually(t, "the report to be ready", func() bool { return l.get(asked).Status == report.Ready })
	if got := l.get(asked); got.Complete == nil || *got.Complete || got.CompleteUntil == nil || !got.CompleteUntil.Equal(until) {
		t.Errorf("ready as %+v", got)
	}
	pdf := []byte(l.file(asked, report.PDF))
	show(t, "incomplete", pdf)
	line := "Figures are complete until " + stamp(until, time.UTC) + " only."
	if page := pdfTool(t, pdf, "pdftotext", "-layout", "-l", "1"); !strings.Contains(page, line) {
		t.Errorf("page 1 lacks %q:\n%s", line, page)
	}
	if sheet := l.file(asked, report.CSV); !strings.Contains(sheet, "; incomplete, complete until "+until.Format(time.RFC3339Nano)+` only"`) {
		t.Errorf("the CSV does not state it:\n%s", sheet)
	}
	eventually(t, "the message", func() bool { return len(h.received()) == 1 })
	if d := h.received()[0].Data; d.Complete || d.CompleteUntil == nil || !d.CompleteUntil.Equal(until) || !strings.HasSuffix(d.Summary, line) {
		t.Errorf("notified %+v", d)
	}
}

// Where nothing is known of what is stored, a report does not claim to be complete.
func TestReportOfUnknownCompleteness(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "Unknown")
	for _, change := range []string{`UPDATE kafka_offsets SET complete_until = '-infinity'`, `DELETE FROM kafka_offsets`} {
		l.exec(change)
		s := l.read(l.request(nil))
		if s.Complete || !s.CompleteUntil.IsZero() {
			t.Errorf("%s: complete %v until %v", change, s.Complete, s.CompleteUntil)
		}
		wantText(t, draw(t, s), "Figures may be incomplete: it is not known up to when.")
	}
}

// Asking again for a report that is begun makes another one: the first may lack what was accepted since.
func TestAskingAgainAfterTheBegin(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "Again")
	l.complete(time.Now().Add(-time.Hour))
	wanted := report.Request{From: november, To: november.AddDate(0, 1, 0)}
	first := l.ask(wanted)
	if again := l.ask(wanted); again.ID != first.ID {
		t.Errorf("asked twice before it began: %v and %v", first.ID, again.ID)
	}
	runMaker(t, db.Pool, mail.DefaultConfig())
	l.waitsFor(first, "events")
	if again := l.ask(wanted); again.ID == first.ID {
		t.Error("asked again after it began, and got the same")
	}
	l.complete(time.Now().Add(time.Hour))
}

// All figures of a report are of one snapshot, whatever is stored meanwhile: each section adds up to the same.
func TestReportIsOfOneSnapshot(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db.Pool, "Busy")
		now := time.Now().UTC().Truncate(15 * time.Minute)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.storeLive(now, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
		r := l.request(func(r *report.Report) { r.From, r.To = now.AddDate(0, 0, -3), now.AddDate(0, 0, 1) })
		seen := map[int64]bool{}
		for len(seen) < 30 {
			s := l.read(r)
			var days, agents, models, prices int64
			for i := range s.Days {
				days += s.Days[i].Events
			}
			for i := range s.ByAgent {
				agents += s.ByAgent[i].Events
			}
			for i := range s.ByModel {
				models += s.ByModel[i].Events
			}
			for i := range s.Prices {
				prices += s.Prices[i].Events
			}
			if n := s.Totals.Events; days != n || agents != n || models != n || prices != n || s.PricesUnknown != 0 {
				t.Fatalf("events: total %d, days %d, agents %d, models %d, prices %d, unknown %d", n, days, agents, models, prices, s.PricesUnknown)
			}
			seen[s.Totals.Events] = true
		}
		close(stop)
		wg.Wait()
	})
}

// storeLive stores one event with its sums, as a batch does.
func (l *ledger) storeLive(at time.Time, n int64) error {
	return pgx.BeginFunc(l.t.Context(), l.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(l.t.Context(), `
INSERT INTO events (ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit, status, input_tokens,
  output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, cost_nano_usd, cost_source, price_id,
  kafka_partition, kafka_offset)
VALUES ($1, $2, gen_random_uuid(), $1, 'a', 'p', 'm', 'ses_x', false, 'ok', 1, 1, 0, 0, 0, 0, 1, 'calculated', 'p@1', 1, $3)`, at, l.account, n)
		if err != nil {
			return err
		}
		return schematest.SumEvents(l.t.Context(), tx)
	})
}
