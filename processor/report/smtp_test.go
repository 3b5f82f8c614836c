package report

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"

	outlaymail "github.com/outlayhq/outlay/processor/mail"
)

// mailServer is an SMTP server that keeps what it is sent, and answers some addresses as it is asked to.
type mailServer struct {
	listener net.Listener
	mu       sync.Mutex
	letters  []letter
	answers  map[string]*answerTo
}

type letter struct{ from, to, data string }

// answerTo is what is answered to RCPT TO of an address, so many times.
type answerTo struct {
	line  string
	times int
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{listener: listener, answers: map[string]*answerTo{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
	})
	return s
}

func (s *mailServer) config() outlaymail.Config {
	addr := s.listener.Addr().(*net.TCPAddr)
	return outlaymail.Config{SMTPHost: addr.IP.String(), SMTPPort: addr.Port, SMTPTLS: "none", SMTPFrom: "Outlay <outlay@example.com>"}
}

func (s *mailServer) answer(address, line string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[address] = &answerTo{line, times}
}

func (s *mailServer) count() int { return len(s.received()) }

func (s *mailServer) received() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]letter(nil), s.letters...)
}

func (s *mailServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	say := func(line string) { fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 test ESMTP")
	var l letter
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch command, rest, _ := strings.Cut(strings.TrimSpace(line), " "); strings.ToUpper(command) {
		case "EHLO":
			say("250-test")
			say("250 8BITMIME")
		case "MAIL":
			l = letter{from: between(rest)}
			say("250 ok")
		case "RCPT":
			l.to = between(rest)
			say(s.reply(l.to))
		case "DATA":
			say("354 go on")
			l.data = readData(in)
			s.mu.Lock()
			s.letters = append(s.letters, l)
			s.mu.Unlock()
			say("250 kept")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *mailServer) reply(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answers[address]; a != nil && a.times > 0 {
		a.times--
		return a.line
	}
	return "250 ok"
}

func between(text string) string {
	_, text, _ = strings.Cut(text, "<")
	text, _, _ = strings.Cut(text, ">")
	return text
}

func readData(in *bufio.Reader) string {
	var data strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == ".\r\n" {
			return data.String()
		}
		data.WriteString(strings.TrimPrefix(line, "."))
	}
}

// checkLetter reads a letter as a mail program does: it has a subject, a text, and both documents.
func checkLetter(t *testing.T, l letter) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(l.data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "Weekly spend, 20") || l.from != "outlay@example.com" || !strings.Contains(m.Header.Get("To"), l.to) ||
		!strings.HasPrefix(m.Header.Get("Message-Id"), "<rpt_") || m.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("header %v of a letter from %s to %s", m.Header, l.from, l.to)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		if part.Header.Get("Content-Transfer-Encoding") == "base64" {
			if body, err = base64.StdEncoding.DecodeString(strings.NewReplacer("\r", "", "\n", "").Replace(string(body))); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case bytes.HasPrefix(body, []byte("%PDF-")) && strings.HasSuffix(part.FileName(), ".pdf"):
			kinds = append(kinds, "pdf")
		case bytes.HasPrefix(body, []byte(`"section"`)) && strings.HasSuffix(part.FileName(), ".csv"):
			kinds = append(kinds, "csv")
		case bytes.Contains(body, []byte("is attached as PDF")):
			kinds = append(kinds, "text")
		}
	}
	if strings.Join(kinds, " ") != "text pdf csv" {
		t.Errorf("the letter to %s has %v", l.to, kinds)
	}
}
