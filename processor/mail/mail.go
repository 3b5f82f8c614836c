package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// Letter is what is sent to one address.
type Letter struct {
	// ID makes the Message-ID: the same for the same letter, however often it is sent.
	ID      string
	To      string
	Subject string
	Text    string
	Files   []File
}

// File is an attachment.
type File struct {
	Name, ContentType string
	Content           []byte
}

var (
	// ErrNotSetUp is returned where no mail server is set.
	ErrNotSetUp = errors.New("no mail server is set up")
	// ErrRefused is returned when the server refused the letter for good: sending it again would not help.
	ErrRefused = errors.New("the mail server refused the letter")
)

// Sender sends letters. It is safe for concurrent use.
type Sender struct{ cfg Config }

// New returns a Sender. Its configuration was validated.
func New(cfg Config) *Sender { return &Sender{cfg} }

// sendTimeout bounds one try at sending.
const sendTimeout = time.Minute

// Send hands a letter to the mail server. An error that is not ErrRefused may pass.
func (s *Sender) Send(ctx context.Context, l *Letter) error {
	if s.cfg.SMTPHost == "" {
		return ErrNotSetUp
	}
	message, err := s.compose(l)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	// A client for each letter: reports and messages are rare, and a kept connection would have to be watched.
	client, err := mail.NewClient(s.cfg.SMTPHost, s.options(ctx)...)
	if err != nil {
		return fmt.Errorf("make the mail client: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, message)
	var answered *mail.SendError
	if errors.As(err, &answered) && !answered.IsTemp() && answered.ErrorCode() >= 500 {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	return nil
}

// compose returns the message as it goes over the wire. Its Message-ID has the domain of the sender.
func (s *Sender) compose(l *Letter) (*mail.Msg, error) {
	m := mail.NewMsg()
	if err := m.From(s.cfg.SMTPFrom); err != nil {
		return nil, err
	}
	if err := m.To(l.To); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(strings.Trim(s.cfg.SMTPFrom, "<>"), "@")
	m.SetMessageIDWithValue(l.ID + "@" + strings.TrimRight(domain, "> "))
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.Subject(l.Subject)
	m.SetDate()
	m.SetBodyString(mail.TypeTextPlain, l.Text)
	for _, f := range l.Files {
		if err := m.AttachReader(f.Name, bytes.NewReader(f.Content), mail.WithFileContentType(mail.ContentType(f.ContentType))); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// options returns the settings of one connection to the server. The library heeds ctx until it is connected, and from then on only a timeout of its
// own, so that is what is left of ctx.
func (s *Sender) options(ctx context.Context) []mail.Option {
	timeout := sendTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, time.Until(deadline))
	}
	options := []mail.Option{mail.WithPort(s.cfg.SMTPPort), mail.WithTimeout(timeout)}
	switch s.cfg.SMTPTLS {
	case "tls":
		options = append(options, mail.WithSSL())
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.cfg.SMTPUser != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(s.cfg.SMTPUser), mail.WithPassword(s.cfg.SMTPPassword))
	}
	return options
}
