package mail

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

var note = Letter{ID: "whd_1", To: "ops@example.com", Subject: "Größe 🎉", Text: "Zeile 1\n.\nüber $3.10 ± 1.20\n"}

// send sends a letter, for at most a few seconds.
func send(t *testing.T, cfg Config, l Letter) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return New(cfg).Send(ctx, &l)
}

// read reads a letter as a mail program does.
func read(t *testing.T, l letter) (header netmail.Header, subject string, parts []string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(l.text))
	if err != nil {
		t.Fatal(err)
	}
	if subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return m.Header, subject, []string{decode(t, m.Header.Get("Content-Transfer-Encoding"), m.Body)}
	}
	for all := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := all.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, subject, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part.FileName()+":"+decode(t, part.Header.Get("Content-Transfer-Encoding"), part))
	}
}

func decode(t *testing.T, encoding string, r io.Reader) string {
	t.Helper()
	switch encoding {
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// A letter arrives whole, over each kind of connection, with what it is signed in with.
func TestLetterArrives(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"none", "starttls", "tls"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := &server{mustSignIn: mode != "none"}
			cfg := newServer(t, s, mode)
			if s.mustSignIn {
				cfg.SMTPUser, cfg.SMTPPassword = user, password
			}
			l := note
			file := bytes.Repeat([]byte{0, 1, 0xff, '\n', '.', '\n'}, 10_000)
			l.Files = []File{{"größe.pdf", "application/pdf", file}}
			if err := send(t, cfg, l); err != nil {
				t.Fatal(err)
			}
			got := s.received()
			if len(got) != 1 {
				t.Fatalf("%d letters", len(got))
			}
			header, subject, parts := read(t, got[0])
			if got[0].secure != (mode != "none") || got[0].signed != s.mustSignIn || got[0].from != "outlay@example.com" || got[0].to != l.To {
				t.Errorf("came %+v", got[0])
			}
			if subject != l.Subject || header.Get("Message-Id") != "<whd_1@example.com>" || header.Get("Auto-Submitted") != "auto-generated" ||
				header.Get("Date") == "" || !strings.Contains(header.Get("To"), l.To) {
				t.Errorf("header %v", header)
			}
			if len(parts) != 2 || parts[0] != ":"+l.Text || !strings.HasSuffix(parts[1], ":"+string(file)) || !strings.Contains(parts[1][:40], "pdf") {
				t.Errorf("%d parts, the first %q", len(parts), parts[0])
			}
		})
	}
}

// A letter that is sent twice has the same Message-ID, and another one has another.
func TestMessageIDIsOfTheLetter(t *testing.T) {
	t.Parallel()
	s := &server{}
	cfg := newServer(t, s, "none")
	other := note
	other.ID = "whd_2"
	for _, l := range []Letter{note, note, other} {
		if err := send(t, cfg, l); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, l := range s.received() {
		header, _, _ := read(t, l)
		ids = append(ids, header.Get("Message-Id"))
	}
	if strings.Join(ids, " ") != "<whd_1@example.com> <whd_1@example.com> <whd_2@example.com>" {
		t.Errorf("Message-IDs %v", ids)
	}
}

// What the server refuses for good is distinguished from what may pass, and neither shows the password or the letter.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answer  *smtp.SMTPError
		refused bool
	}{
		{"no such user", &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}, true},
		{"mailbox full", &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "full"}, false},
		{"busy", &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "busy"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &server{answer: tc.answer}
			cfg := newServer(t, s, "starttls")
			cfg.SMTPUser, cfg.SMTPPassword = user, password
			err := send(t, cfg, note)
			if err == nil || errors.Is(err, ErrRefused) != tc.refused || len(s.received()) != 0 {
				t.Errorf("%v, refused for good %v, %d letters", err, errors.Is(err, ErrRefused), len(s.received()))
			}
			hidesSecrets(t, err)
		})
	}
}

func hidesSecrets(t *testing.T, err error) {
	t.Helper()
	if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "Zeile")) {
		t.Errorf("the error tells too much: %v", err)
	}
}

// Nothing is sent over a connection that is not what was asked for, and it may be tried again.
func TestNothingIsSentInsecurely(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no STARTTLS":        func(*Config) {},
		"TLS, but it is not": func(c *Config) { c.SMTPTLS = "tls" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{}
			cfg := newServer(t, s, "none")
			cfg.SMTPTLS, cfg.SMTPUser, cfg.SMTPPassword = "starttls", user, password
			change(&cfg)
			err := send(t, cfg, note)
			if err == nil || errors.Is(err, ErrRefused) || len(s.received()) != 0 {
				t.Errorf("%v, %d letters", err, len(s.received()))
			}
			hidesSecrets(t, err)
		})
	}
	for _, mode := range []string{"starttls", "tls"} {
		t.Run("a certificate for another name, "+mode, func(t *testing.T) {
			t.Parallel()
			s := &server{}
			cfg := newServer(t, s, mode)
			cfg.SMTPHost = "127.0.0.1"
			if err := send(t, cfg, note); err == nil || errors.Is(err, ErrRefused) || len(s.received()) != 0 {
				t.Errorf("%v, %d letters", err, len(s.received()))
			}
		})
	}
}

// A wrong password is the operator's to mend: it may pass, and does not show.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	s := &server{mustSignIn: true}
	cfg := newServer(t, s, "tls")
	cfg.SMTPUser, cfg.SMTPPassword = user, password+"x"
	err := send(t, cfg, note)
	if err == nil || errors.Is(err, ErrRefused) || len(s.received()) != 0 {
		t.Errorf("%v, %d letters", err, len(s.received()))
	}
	hidesSecrets(t, err)
}

// Whatever a letter holds, it has one recipient and no header of its own making.
func TestLettersCannotAddHeaders(t *testing.T) {
	t.Parallel()
	s := &server{}
	cfg := newServer(t, s, "none")
	l := note
	l.Subject = "spend\r\nBcc: thief@example.com\r\n\r\nbody"
	l.Files = []File{{"a\"\r\nX-Evil: 1.pdf", "application/pdf", []byte("x")}}
	if err := send(t, cfg, l); err == nil {
		for _, got := range s.received() {
			header, _, _ := read(t, got)
			if got.to != l.To || header.Get("Bcc") != "" || strings.Contains(got.text, "\nX-Evil") {
				t.Errorf("the letter has headers of its own: %s", got.text)
			}
		}
	}
	l = note
	l.To = "ops@example.com>\r\nRCPT TO:<thief@example.com"
	if err := send(t, cfg, l); !errors.Is(err, ErrRefused) {
		t.Errorf("an address with a command: %v, want it refused", err)
	}
	for _, got := range s.received() {
		if got.to != "ops@example.com" {
			t.Errorf("a letter went to %s", got.to)
		}
	}
}

// A server that sends nothing does not hold up who sends, and one that is away may come back.
func TestServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	cfg := Config{SMTPHost: "127.0.0.1", SMTPPort: l.Addr().(*net.TCPAddr).Port, SMTPTLS: "none", SMTPFrom: "outlay@example.com"}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- New(cfg).Send(ctx, &note) }()
	select {
	case err := <-ended:
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, ErrRefused) {
			t.Errorf("a server that sends nothing: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a server that sends nothing holds up the sender past its context")
	}
	_ = l.Close()
	if err := send(t, cfg, note); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a server that is away: %v", err)
	}
}

// Without a server nothing is sent, and that is reported.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	if err := send(t, DefaultConfig(), note); !errors.Is(err, ErrNotSetUp) {
		t.Errorf("%v, want ErrNotSetUp", err)
	}
}

// Settings that cannot work are refused when the program starts, by the name of the flag.
func TestConfigValidate(t *testing.T) {
	t.Parallel()
	good := Config{SMTPHost: "mail.example.com", SMTPPort: 587, SMTPTLS: "starttls", SMTPFrom: "Outlay <outlay@example.com>"}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"good", func(*Config) {}, ""},
		{"no server", func(c *Config) { *c = DefaultConfig() }, ""},
		{"no sender", func(c *Config) { c.SMTPFrom = "" }, "--smtp-from"},
		{"a sender that is none", func(c *Config) { c.SMTPFrom = "outlay" }, "--smtp-from"},
		{"no port", func(c *Config) { c.SMTPPort = 0 }, "--smtp-port"},
		{"a port too high", func(c *Config) { c.SMTPPort = 65536 }, "--smtp-port"},
	} {
		cfg := good
		tc.change(&cfg)
		if err := cfg.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
