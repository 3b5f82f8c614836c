package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/work"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/report"
)

// Deps are what a Maker works with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	Mail Sender
	// Work does the jobs. Register adds the kinds to it.
	Work *work.Runner
	Log  *slog.Logger
	Now  func() time.Time
	// MailWait is how long to wait before the try at sending that follows try number attempt. Defaults to a minute, doubling
	// up to three hours, which with mailTries covers a day.
	MailWait func(attempt int) time.Duration
}

// Maker makes reports as jobs, and has those made that schedules are due for.
type Maker struct{ Deps }

const (
	// makeWorkers is how many reports a processor makes at a time.
	makeWorkers = 2
	// makeTimeout bounds one try.
	makeTimeout = 2 * time.Minute
	// dueInterval is how often schedules are looked at.
	dueInterval = 30 * time.Second
)

// Register adds a Maker's kinds of jobs to its runner.
func Register(d Deps) {
	if d.MailWait == nil {
		d.MailWait = mailWait
	}
	m := &Maker{d}
	work.Track(d.Work, work.Options{Workers: makeWorkers, Timeout: makeTimeout}, m.makeReport)
	work.Handle(d.Work, work.Options{Timeout: time.Minute}, m.makeDue)
	work.Handle(d.Work, work.Options{Workers: makeWorkers, Timeout: mailTimeout, Wait: d.MailWait}, m.send)
	d.Work.Every(dueInterval, dueArgs{})
}

// made is the result of the job, for those who look at it.
type made struct {
	ReportID string `json:"report_id"`
	Pages    int    `json:"pages,omitempty"`
}

// steps are what the progress of a report counts: read, drawn, kept.
const steps = 3

func (m *Maker) makeReport(ctx context.Context, t *work.Tracked[report.Args]) (any, error) {
	id, err := schema.ParseID(report.Prefix, t.Args.ReportID)
	if err != nil {
		return nil, fmt.Errorf("report %q: %w", t.Args.ReportID, err)
	}
	r, err := report.NewStore(m.Pool).Get(ctx, t.AccountID, id)
	if errors.Is(err, report.ErrNotFound) {
		return nil, work.Refuse("The report is not there any more.")
	}
	if err != nil {
		return nil, err
	}
	if r.ReadyAt != nil {
		return made{ReportID: t.Args.ReportID}, nil // A try before this one has kept it.
	}
	statement, err := Read(ctx, m.Pool, &r)
	if err != nil {
		return nil, err
	}
	if err := t.Progress(ctx, 1, steps); err != nil {
		return nil, err
	}
	pdf, err := Draw(statement)
	if err != nil {
		return nil, err
	}
	files := map[report.Format][]byte{report.PDF: pdf, report.CSV: WriteCSV(statement)}
	if err := t.Progress(ctx, 2, steps); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error {
		if err := m.keep(ctx, tx, t, &r, files); err != nil {
			return err
		}
		return alert.NewStore(tx).TellAccount(ctx, r.AccountID, readyMessage(&r, statement, len(pdf), m.Now()))
	})
	if err != nil {
		return nil, err
	}
	return made{ReportID: t.Args.ReportID}, nil
}

// keep keeps the documents and adds the jobs that send them, all of it or nothing.
func (m *Maker) keep(ctx context.Context, tx pgx.Tx, t *work.Tracked[report.Args], r *report.Report, files map[report.Format][]byte) error {
	if err := t.Fence(ctx, tx); err != nil {
		return err
	}
	store := report.NewStore(tx)
	if err := store.Keep(ctx, r, files); err != nil {
		return err
	}
	deliveries, err := store.Deliveries(ctx, r.AccountID, r.ID)
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		args := mailArgs{Account: t.AccountID.Text(schema.AccountPrefix), Report: t.Args.ReportID, Address: d.Address}
		if err := m.Work.Insert(ctx, tx, args, work.When{Tries: mailTries}); err != nil {
			return err
		}
	}
	return nil
}

// dueArgs are of the job that looks at the schedules.
type dueArgs struct{}

// Kind is the name of the job.
func (dueArgs) Kind() string { return "report_schedules" }

// keptFor is how long reports are kept.
const keptFor = 400 * 24 * time.Hour

// maxDue bounds how many reports one look makes.
const maxDue = 200

// makeDue asks for the reports that schedules are due for. What was missed while no processor ran is made as well, period by
// period. Old reports go.
func (m *Maker) makeDue(ctx context.Context, _ *work.Task[dueArgs]) error {
	for range maxDue {
		due, err := m.makeOneDue(ctx)
		if err != nil {
			return err
		}
		if !due {
			break
		}
	}
	return report.NewStore(m.Pool).DropBefore(ctx, m.Now().Add(-keptFor))
}

func (m *Maker) makeOneDue(ctx context.Context) (found bool, err error) {
	now := m.Now().UTC().Truncate(time.Microsecond)
	err = pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error {
		store := report.NewStore(tx)
		due, err := store.Due(ctx, now, 1)
		if err != nil || len(due) == 0 {
			return err
		}
		found = true
		return store.Make(ctx, &due[0], now)
	})
	return found, err
}
