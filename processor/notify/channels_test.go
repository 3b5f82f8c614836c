package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Slack gets the whole of its address, which nobody else sees, and text in which
// nothing reads as markup.
func TestSlackGetsPlainText(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		w := newWorld(t, db, mail.DefaultConfig())
		var path, body string
		slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			text, err := io.ReadAll(q.Body)
			if err != nil {
				t.Error(err)
			}
			path, body = q.URL.Path, string(text)
		}))
		t.Cleanup(slack.Close)
		rule := w.rule(w.account, alert.Channel{Type: alert.Slack, Address: slack.URL + "/services/T/B/secret"})
		m := firing("1")
		m.Title = "Firing: <!channel> & <https://evil.example|click>"
		id := w.notify(rule, m)
		w.step()
		var got struct{ Text string }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %q", err, body)
		}
		want := "Firing: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;\n$5.10 in 5 min, above $5.00"
		if d := w.delivery(w.account, id); path != "/services/T/B/secret" || got.Text != want || d.State != alert.Delivered || strings.Contains(d.Address, "secret") {
			t.Errorf("%s got %q, delivery %+v", path, got.Text, d)
		}
	})
}

// mailServer is a real SMTP server that keeps what it gets.
type mailServer struct {
	t    *testing.T
	host string
	port int

	mu      sync.Mutex
	refuse  int
	letters []letter
}

type letter struct{ from, to, text string }

// NewSession begins a session.
func (s *mailServer) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: s}, nil
}

type mailSession struct {
	server *mailServer
	letter letter
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error { s.letter.from = from; return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error { s.letter.to = to; return nil }

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refuse > 0 {
		s.server.refuse--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"}
	}
	s.letter.text = string(text)
	s.server.letters = append(s.server.letters, s.letter)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	s := &mailServer{t: t}
	server := smtp.NewServer(s)
	server.Domain, server.AllowInsecureAuth = "mail.example", true
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	s.host, s.port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	return s
}

// E-mail goes to a server, is tried again when the server answers
// later, and arrives readable, under one Message-ID.
func TestEmailGoesThroughARealServer(t *testing.T) {
	t.Parallel()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		server := newMailServer(t)
		server.refuse = 1
		w := newWorld(t, db, mail.Config{
			SMTPHost: server.host, SMTPPort: server.port, SMTPTLS: "none",
			SMTPFrom: "Outlay <alerts@outlay.example>",
		})
		rule := w.rule(w.account, alert.Channel{Type: alert.Email, Address: "ops@example.com"})
		m := firing("1")
		m.Title, m.Summary = "Firing: Größe 🎉 "+strings.Repeat("long ", 30), "$5.10 in 5 min; usual $3.10 ± 1.20"
		id := w.notify(rule, m)
		w.step()
		if d := w.delivery(w.account, id); d.State != alert.Pending || d.Tries[0].Outcome != string(outcomeMail) || d.Tries[0].Status == nil || *d.Tries[0].Status != 451 {
			t.Errorf("refused for now: %+v", d)
		}
		w.clock.set(w.clock.now().Add(time.Minute))
		w.step()
		if d := w.delivery(w.account, id); d.State != alert.Delivered || len(server.letters) != 1 {
			t.Fatalf("%+v, %d letters", d, len(server.letters))
		}
		got := server.letters[0]
		letter, err := netmail.ReadMessage(bytes.NewReader([]byte(got.text)))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(letter.Header.Get("Subject"))
		if err != nil || subject != "[Outlay] "+m.Title {
			t.Errorf("subject %q, %v", subject, err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(letter.Body))
		if err != nil || !strings.Contains(string(body), m.Summary) {
			t.Errorf("body %q, %v", body, err)
		}
		if got.from != "alerts@outlay.example" || got.to != "ops@example.com" ||
			!strings.Contains(letter.Header.Get("Message-ID"), id.Text(alert.DeliveryPrefix)+"@outlay.example") {
			t.Errorf("letter %+v, Message-ID %s", got, letter.Header.Get("Message-ID"))
		}
	})
}
