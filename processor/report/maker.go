package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/job"
	"github.com/outlayhq/outlay/schema/report"
)

// Deps are what a Maker works with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	Mail Sender
	// Jobs runs them. Register adds the kinds to it.
	Jobs *jobs.Runner
	Log  *slog.Logger
	Now  func() time.Time
	// MailWait is how long to wait before the next try at sending when so many have failed. Defaults to a minute, doubling
	// up to three hours, which with mailTries covers a day.
	MailWait func(failures int) time.Duration
	// CompleteWithin is the longest that a job waits for its figures to be complete. Defaults to a minute.
	CompleteWithin time.Duration
}

// Maker makes reports as jobs, and has those made that schedules are due for.
type Maker struct {
	Deps
	// drawing has a place for each report that may be drawn at a time, which bounds the memory.
	drawing chan struct{}
}

const (
	// makeWorkers is how many reports a processor makes at a time, those included that wait for their figures.
	makeWorkers = 16
	// drawWorkers is how many it draws at a time.
	drawWorkers = 2
	// makeTimeout bounds reading, drawing and keeping one report.
	makeTimeout = 2 * time.Minute
	// mailWorkers is how many letters with reports a processor sends at a time.
	mailWorkers = 2
	// dueInterval is how often schedules are looked at.
	dueInterval = 30 * time.Second
)

// Register adds a Maker's kinds of jobs to its runner.
func Register(d Deps) {
	if d.MailWait == nil {
		d.MailWait = mailWait
	}
	if d.CompleteWithin == 0 {
		d.CompleteWithin = completeWithin
	}
	m := &Maker{Deps: d, drawing: make(chan struct{}, drawWorkers)}
	jobs.Handle(d.Jobs, jobs.Options{Workers: makeWorkers, Timeout: -1}, m.makeReport)
	jobs.Handle(d.Jobs, jobs.Options{Workers: mailWorkers, Timeout: mailTimeout, Wait: d.MailWait}, m.send)
	d.Jobs.Every(dueInterval, "report_schedules", m.makeDue)
}

// made is the result of the job, for those who look at it.
type made struct {
	ReportID string `json:"report_id"`
	Pages    int    `json:"pages,omitempty"`
}

// steps are what the progress of a report counts: read, drawn, kept.
const steps = 3

// makeReport makes the report of a job. It begins anew when the figures have become incomplete while it waited for its turn to
// draw, until the deadline; from then on it takes the figures as they are.
func (m *Maker) makeReport(ctx context.Context, t *jobs.Task[report.Args]) (any, error) {
	id, err := schema.ParseID(report.Prefix, t.Args.ReportID)
	if err != nil {
		return nil, fmt.Errorf("report %q: %w", t.Args.ReportID, err)
	}
	r, err := report.NewStore(m.Pool).Get(ctx, t.AccountID, id)
	if errors.Is(err, report.ErrNotFound) {
		return nil, jobs.Refuse("The report is not there any more.")
	}
	if err != nil {
		return nil, err
	}
	if r.ReadyAt != nil {
		return made{ReportID: t.Args.ReportID}, nil // A try before this one has kept it.
	}
	if err := t.Progress(ctx, 0, steps); err != nil {
		return nil, err
	}
	asOf := m.Now()
	if r.CreatedAt.After(asOf) {
		asOf = r.CreatedAt // The clock of who asked is ahead.
	}
	for deadline := m.Now().Add(m.CompleteWithin); ; {
		if err := m.await(ctx, t, &r, asOf, deadline); err != nil {
			return nil, err
		}
		done, err := m.drawAndKeep(ctx, t, &r, asOf, deadline)
		if err != nil {
			return nil, err
		}
		if done {
			return made{ReportID: t.Args.ReportID}, nil
		}
	}
}

// drawAndKeep makes a report of the figures that there are. It reports false, and has done nothing, when they have stopped being
// complete and the deadline has not passed.
func (m *Maker) drawAndKeep(ctx context.Context, t *jobs.Task[report.Args], r *report.Report, asOf, deadline time.Time) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case m.drawing <- struct{}{}:
		defer func() { <-m.drawing }()
	}
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	// Reading and drawing are bounded together; the wait for a place was not.
	statement, err := Read(ctx, m.Pool, r, asOf)
	if err != nil {
		return false, err
	}
	if !statement.Complete && m.Now().Before(deadline) {
		return false, nil
	}
	if err := t.Progress(ctx, 1, steps); err != nil {
		return false, err
	}
	pdf, err := Draw(statement)
	if err != nil {
		return false, err
	}
	files := map[report.Format][]byte{report.PDF: pdf, report.CSV: WriteCSV(statement)}
	if err := t.Progress(ctx, 2, steps); err != nil {
		return false, err
	}
	r.Complete, r.CompleteUntil = &statement.Complete, nil
	if !statement.CompleteUntil.IsZero() {
		r.CompleteUntil = &statement.CompleteUntil
	}
	return true, pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error {
		if err := m.keep(ctx, tx, t, r, files); err != nil {
			return err
		}
		return alert.NewStore(tx).NotifyAccount(ctx, r.AccountID, readyMessage(r, statement, len(pdf), m.Now()))
	})
}

// keep keeps the documents and adds the jobs that send them, all of it or nothing.
func (m *Maker) keep(ctx context.Context, tx pgx.Tx, t *jobs.Task[report.Args], r *report.Report, files map[report.Format][]byte) error {
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
		mail := job.New{AccountID: t.AccountID, Args: mailArgs{Report: t.Args.ReportID, Address: d.Address}, At: m.Now()}
		if err := job.NewStore(tx).AddInternal(ctx, mail, mailTries); err != nil {
			return err
		}
	}
	return nil
}

// maxDue bounds how many reports one look makes.
const maxDue = 200

// makeDue asks for the reports that schedules are due for. What was missed while no processor ran is made as well, period by
// period.
func (m *Maker) makeDue(ctx context.Context) error {
	for range maxDue {
		if found, err := m.makeOneDue(ctx); err != nil || !found {
			return err
		}
	}
	return nil
}

// makeOneDue asks for the report of the schedule that is due the longest. The row is locked, so processors share the schedules.
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
