package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/outlayhq/outlay/schema/alert"
)

// mailer sends messages by e-mail.
type mailer struct {
	cfg Config
	// roots are the authorities that sign for the server; nil for the machine's.
	roots *x509.CertPool
}

func (m *mailer) send(ctx context.Context, d *delivery) result {
	if m.cfg.SMTPHost == "" {
		return result{outcome: outcomeNoMail}
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	message, err := m.compose(d)
	if err != nil {
		return result{outcome: outcomeMail}
	}
	client, err := mail.NewClient(m.cfg.SMTPHost, m.options()...)
	if err != nil {
		return result{outcome: outcomeFailed}
	}
	if err := client.DialAndSendWithContext(ctx, message); err != nil {
		return mailResult(err)
	}
	return result{outcome: outcomeDelivered}
}

// compose makes the letter. Its id is the message's, so that a mailbox shows a
// message that was sent twice once.
func (m *mailer) compose(d *delivery) (*mail.Msg, error) {
	message := mail.NewMsg()
	if err := message.From(m.cfg.SMTPFrom); err != nil {
		return nil, err
	}
	if err := message.To(d.Address); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(m.cfg.SMTPFrom, "@")
	message.SetMessageIDWithValue(d.ID.Text(alert.DeliveryPrefix) + "@" + strings.TrimRight(domain, ">"))
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.Subject("[Outlay] " + d.Title)
	message.SetBodyString(mail.TypeTextPlain, d.Title+"\n\n"+d.Summary+"\n")
	return message, nil
}

func (m *mailer) options() []mail.Option {
	options := []mail.Option{mail.WithPort(m.cfg.SMTPPort), mail.WithTimeout(tryTimeout)}
	switch m.cfg.SMTPTLS {
	case "tls":
		options = append(options, mail.WithSSL())
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.roots != nil {
		options = append(options, mail.WithTLSConfig(&tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: m.roots, ServerName: m.cfg.SMTPHost,
		}))
	}
	if m.cfg.SMTPUser != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(m.cfg.SMTPUser), mail.WithPassword(m.cfg.SMTPPassword))
	}
	return options
}

// mailResult tells a server that refuses from one that is not there.
func mailResult(err error) result {
	var refused *mail.SendError
	if errors.As(err, &refused) {
		return result{outcomeMail, refused.ErrorCode()}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return result{outcome: outcomeTimeout}
	}
	return result{outcome: outcomeFailed}
}
