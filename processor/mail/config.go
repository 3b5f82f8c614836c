// Package mail sends letters of the processor tier over SMTP. Whether and when a letter is tried again is left to the caller; a
// letter that is sent twice carries the same Message-ID, so that mailboxes can show it once.
package mail

import (
	"errors"
	"net/mail"
)

// Config sets the mail server.
type Config struct {
	// SMTPHost is the mail server. Without one no mail is sent.
	SMTPHost     string `name:"smtp-host" placeholder:"HOST" help:"Mail server. Without one no e-mail is sent."`
	SMTPPort     int    `name:"smtp-port" default:"587" help:"Port of the mail server."`
	SMTPTLS      string `name:"smtp-tls" default:"starttls" enum:"starttls,tls,none" help:"How to talk to the mail server: starttls, tls or none."`
	SMTPUser     string `name:"smtp-user" placeholder:"NAME" help:"User name for the mail server, if it wants one."`
	SMTPPassword string `name:"smtp-password" placeholder:"PASSWORD" help:"Password for the mail server. Prefer OUTLAY_SMTP_PASSWORD_FILE."`
	SMTPFrom     string `name:"smtp-from" placeholder:"ADDRESS" help:"Sender of e-mail, such as outlay@example.com."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{SMTPPort: 587, SMTPTLS: "starttls"} }

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	// The other settings have no effect then.
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
