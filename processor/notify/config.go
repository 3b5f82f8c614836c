package notify

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
)

// Config says how messages are sent.
type Config struct {
	// AllowCIDRs are address ranges that webhooks may reach although they are not
	// public.
	AllowCIDRs []string `name:"webhook-allow-cidr" placeholder:"CIDR" help:"Private address ranges that webhooks may be sent to, such as 10.1.0.0/16. Without any, only public addresses may."`
	// SMTPHost sends e-mail; without it e-mail channels fail.
	SMTPHost     string `name:"smtp-host" placeholder:"HOST" help:"Mail server for e-mail alerts. Without one they are not sent."`
	SMTPPort     int    `name:"smtp-port" default:"587" help:"Port of the mail server."`
	SMTPTLS      string `name:"smtp-tls" default:"starttls" enum:"starttls,tls,none" help:"How to talk to the mail server: starttls, tls or none."`
	SMTPUser     string `name:"smtp-user" placeholder:"NAME" help:"User name for the mail server, if it wants one."`
	SMTPPassword string `name:"smtp-password" placeholder:"PASSWORD" help:"Password for the mail server. Prefer OUTLAY_SMTP_PASSWORD_FILE."`
	SMTPFrom     string `name:"smtp-from" placeholder:"ADDRESS" help:"Sender of e-mail alerts."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{SMTPPort: 587, SMTPTLS: "starttls"} }

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	if _, err := c.prefixes(); err != nil {
		return err
	}
	if c.SMTPHost == "" {
		return nil
	}
	if _, err := mail.ParseAddress(c.SMTPFrom); err != nil {
		return errors.New("--smtp-from must be an e-mail address when --smtp-host is given")
	}
	if c.SMTPPort < 1 || c.SMTPPort > 65535 {
		return errors.New("--smtp-port must be between 1 and 65535")
	}
	return nil
}

func (c Config) prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(c.AllowCIDRs))
	for i, text := range c.AllowCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--webhook-allow-cidr: %q is not an address range such as 10.1.0.0/16", text)
		}
		prefixes[i] = p.Masked()
	}
	return prefixes, nil
}
