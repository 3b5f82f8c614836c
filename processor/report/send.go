package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/report"
)

// Sender sends letters.
type Sender interface {
	Send(ctx context.Context, l *mail.Letter) error
}

// mailArgs are of the job that sends one report to one address.
type mailArgs struct {
	Report  string `json:"report_id"`
	Address string `json:"address"`
}

// Kind is the name of the job.
func (mailArgs) Kind() string { return "report_mail" }

const (
	mailTimeout = 2 * time.Minute
	// mailTries with the waits between them cover a day.
	mailTries = 14
)

// mailWait is the wait of sending: mail servers ask for minutes, and may be away for hours.
func mailWait(failures int) time.Duration { return backoff.Wait(failures, time.Minute, 3*time.Hour) }

// send sends one report to one address. A try that sent the letter and could not note it is followed by another, with the same
// Message-ID.
func (m *Maker) send(ctx context.Context, t *jobs.Task[mailArgs]) (any, error) {
	id, err := schema.ParseID(report.Prefix, t.Args.Report)
	if err != nil {
		return nil, fmt.Errorf("report %q: %w", t.Args.Report, err)
	}
	store := report.NewStore(m.Pool)
	r, err := store.Get(ctx, t.AccountID, id)
	if errors.Is(err, report.ErrNotFound) {
		return nil, nil // It is too old to be sent.
	}
	if err != nil {
		return nil, err
	}
	d := &report.Delivery{ReportID: id, Address: t.Args.Address}
	letter, err := m.letter(ctx, &r, d)
	if err != nil {
		return nil, err
	}
	if err := m.Mail.Send(ctx, letter); err != nil {
		return nil, m.notSent(ctx, t, d, err)
	}
	return nil, store.Sent(ctx, t.AccountID, d)
}

// notSent notes why a letter was not sent, in words that hold nothing of the mail server's.
func (m *Maker) notSent(ctx context.Context, t *jobs.Task[mailArgs], d *report.Delivery, why error) error {
	reason, last := "The mail server could not be reached, or asked to wait.", t.Last
	switch {
	case errors.Is(why, mail.ErrNotSetUp):
		reason, last = "This server has no mail server set up.", true
	case errors.Is(why, mail.ErrRefused):
		reason, last = "The mail server refused this address or the letter.", true
	}
	ctx = context.WithoutCancel(ctx)
	if err := report.NewStore(m.Pool).NotSent(ctx, t.AccountID, d, reason, last); err != nil {
		return errors.Join(why, err)
	}
	if last {
		m.Log.WarnContext(ctx, "report was not sent", "report", t.Args.Report, "error", why)
		return jobs.Refuse("%s", reason)
	}
	return why
}

// letter returns the e-mail with both documents attached.
func (m *Maker) letter(ctx context.Context, r *report.Report, d *report.Delivery) (*mail.Letter, error) {
	store := report.NewStore(m.Pool)
	var files []mail.File
	for _, format := range []report.Format{report.PDF, report.CSV} {
		content, err := store.File(ctx, r.AccountID, r.ID, format)
		if err != nil {
			return nil, err
		}
		files = append(files, mail.File{Name: r.FileName(format), ContentType: format.ContentType(), Content: content})
	}
	id := r.ID.Text(report.Prefix)
	title := label(r.Title)
	note := ""
	if r.Complete != nil && !*r.Complete {
		note = "The figures are not complete; page 1 states until when they are.\n"
	}
	return &mail.Letter{
		// One for each address: two recipients may share a mailbox.
		ID: id + "." + code(d.Address)[1:], To: d.Address, Subject: title + ", " + r.Period(),
		Text: fmt.Sprintf("%s\n\n%s\n\nThe report is attached as PDF, and its figures as CSV.\n%sReport %s\n", title, r.Period(), note, id), Files: files,
	}, nil
}
