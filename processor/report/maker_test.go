package report

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/report"
	"github.com/outlayhq/outlay/schema/schematest"
)

// runMaker makes reports until the test ends.
func runMaker(t *testing.T, pool *pgxpool.Pool, cfg mail.Config) {
	t.Helper()
	runMakerWithin(t, pool, cfg, 0)
}

// runMakerWithin is runMaker with a limit to how long figures are waited for; 0 is the default.
func runMakerWithin(t *testing.T, pool *pgxpool.Pool, cfg mail.Config, within time.Duration) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	runner := jobs.New(jobs.Deps{Pool: schematest.As(t, pool, "outlay_processor"), Metrics: prometheus.NewRegistry(), Log: log})
	Register(Deps{
		Pool: schematest.As(t, pool, "outlay_processor"), Mail: mail.New(cfg), Jobs: runner, Log: log, Now: time.Now, CompleteWithin: within,
		MailWait: func(int) time.Duration { return 200 * time.Millisecond },
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// patience is how long is waited for what has to happen.
const patience = 3 * time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// schedule adds a weekly schedule whose next report was due this long ago.
func (l *ledger) schedule(ago time.Duration, recipients ...string) *report.Schedule {
	l.t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	x := &report.Schedule{
		ID: schema.NewID(now), AccountID: l.account, Title: "Weekly spend", Frequency: report.Weekly, Timezone: "Asia/Kolkata",
		Recipients: recipients, CreatedAt: now,
	}
	x.Normalise()
	var err error
	if x.NextAt, err = x.Next(now.Add(-ago)); err != nil {
		l.t.Fatal(err)
	}
	if err := report.NewStore(l.pool).AddSchedule(l.t.Context(), x); err != nil {
		l.t.Fatal(err)
	}
	return x
}

const week = 7 * 24 * time.Hour

// Every report that a schedule is due for is made once, also those that were missed, whatever number of processors runs; each
// is of the week before, and is sent to every address with both documents.
func TestScheduledReportsAreMadeAndSentOnce(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		l := newLedger(t, db.Pool, "Scheduled")
		server := newMailServer(t)
		x := l.schedule(2*week, "a@example.com", "b@example.com") // Two are due.
		for range 2 {
			runMaker(t, db.Pool, server.config())
		}
		eventually(t, "all letters", func() bool { return server.count() == 4 })
		time.Sleep(time.Second) // A letter too many would come now.
		reports, err := report.NewStore(db.Pool).Page(t.Context(), l.account, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(reports) != 2 || server.count() != 4 {
			t.Fatalf("%d reports, %d letters, want 2 and 4", len(reports), server.count())
		}
		periods := map[string]bool{}
		for _, r := range reports {
			if r.Status != report.Ready || r.ScheduleID == nil || *r.ScheduleID != x.ID || r.To.Sub(r.From) != week || r.To.After(time.Now()) {
				t.Errorf("%+v", r)
			}
			periods[r.Period()] = true
		}
		if len(periods) != 2 {
			t.Errorf("the reports are of %v", periods)
		}
		for _, letter := range server.received() {
			checkLetter(t, letter)
		}
		schedules, err := report.NewStore(db.Pool).Schedules(t.Context(), l.account)
		if err != nil {
			t.Fatal(err)
		}
		if next := schedules[0].NextAt; !next.Equal(x.NextAt.Add(2 * week)) {
			t.Errorf("the next is due at %v, want two weeks after %v", next, x.NextAt)
		}
	})
}

// A mail server that is busy is asked again, one that refuses an address is not, and one address does not hold up another.
func TestSendingIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "Busy")
	server := newMailServer(t)
	server.answer("busy@example.com", "451 4.3.0 come back later", 3)
	server.answer("gone@example.com", "550 5.1.1 no such user", 1000)
	l.schedule(week, "busy@example.com", "gone@example.com", "fine@example.com")
	runMaker(t, db.Pool, server.config())
	states := func() map[string]report.Delivery {
		all := map[string]report.Delivery{}
		reports, err := report.NewStore(db.Pool).Page(t.Context(), l.account, nil, 10)
		if err != nil || len(reports) == 0 {
			return all
		}
		deliveries, err := report.NewStore(db.Pool).Deliveries(t.Context(), l.account, reports[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range deliveries {
			all[d.Address] = d
		}
		return all
	}
	eventually(t, "all deliveries end", func() bool {
		s := states()
		return s["busy@example.com"].State == "sent" && s["gone@example.com"].State == "failed" && s["fine@example.com"].State == "sent"
	})
	got := states()
	if got["busy@example.com"].Tries != 4 || got["gone@example.com"].Tries != 1 || got["fine@example.com"].Tries != 1 {
		t.Errorf("tries: %+v", got)
	}
	if e := got["gone@example.com"].Error; e == nil || *e != "The mail server refused this address or the letter." {
		t.Errorf("error %v", e)
	}
}

// Without a mail server the report is made, and marked as not sent.
func TestWithoutMailServer(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	l := newLedger(t, db.Pool, "No mail")
	l.schedule(week, "a@example.com")
	runMaker(t, db.Pool, mail.DefaultConfig())
	eventually(t, "the delivery fails", func() bool {
		var state string
		err := db.Pool.QueryRow(t.Context(), `SELECT state FROM report_deliveries WHERE error = 'This server has no mail server set up.'`).Scan(&state)
		return err == nil && state == "failed"
	})
}
