package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// host is the name that the certificate is for.
const host = "localhost"

// certificate is that of the servers. TestMain makes it, and has the machine trust it.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outlay-mail-")
	if err == nil {
		certificate, err = newCertificate(filepath.Join(dir, "roots.pem"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// newCertificate makes a certificate that signs itself, and writes it where Go looks for those that it trusts.
func newCertificate(roots string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return tls.Certificate{}, err
	}
	if err := errors.Join(os.Setenv("SSL_CERT_FILE", roots), os.Setenv("SSL_CERT_DIR", filepath.Dir(roots))); err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

const user, password = "outlay", "p4ss-of-the-mail-server"

// server is a real SMTP server that keeps what it gets.
type server struct {
	// answer is what RCPT TO is answered; nil takes every address.
	answer *smtp.SMTPError
	// mustSignIn refuses letters of those who did not.
	mustSignIn bool

	mu      sync.Mutex
	letters []letter
}

type letter struct {
	from, to, text string
	secure, signed bool
}

// newServer starts a server that is spoken to as mode states, and returns the settings for it.
func newServer(t *testing.T, s *server, mode string) Config {
	t.Helper()
	srv := smtp.NewServer(s)
	srv.Domain, srv.AllowInsecureAuth = host, true
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	switch settings := (&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}); mode {
	case "tls":
		l = tls.NewListener(l, settings)
	case "starttls":
		srv.TLSConfig = settings
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return Config{SMTPHost: host, SMTPPort: port, SMTPTLS: mode, SMTPFrom: "Outlay <outlay@example.com>"}
}

func (s *server) received() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]letter(nil), s.letters...)
}

// NewSession begins a session.
func (s *server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	_, secure := c.TLSConnectionState()
	return &session{server: s, letter: letter{secure: secure}}, nil
}

type session struct {
	server *server
	letter letter
}

// AuthMechanisms lists how one may sign in.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth signs in.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, u, p string) error {
		if u != user || p != password {
			return smtp.ErrAuthFailed
		}
		s.letter.signed = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.letter.from = from; s.server.mustSignIn && !s.letter.signed {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.letter.to = to
	if s.server.answer != nil {
		return s.server.answer
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.letter.text = string(text)
	s.server.letters = append(s.server.letters, s.letter)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
