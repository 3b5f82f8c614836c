package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// forgeries are texts that would make a line of their own in a log, or steer the terminal that shows it.
var forgeries = []string{
	"x\ntime=2026-01-01T00:00:00.000Z level=ERROR msg=forged", "x\r\nlevel=ERROR msg=forged", "x\x1b[2J\x1b[1;1Hforged", "x\x1b]0;forged\x07", "x\x1b]8;;http://evil.example\x1b\\forged",
	"x\x00forged", "x\bforged", "x\x7fforged", `x" level=ERROR msg="forged`, `x","level":"ERROR","msg":"forged`, "x=1 level=ERROR msg=forged", "${jndi:ldap://evil.example/forged}", "%s%n%d forged", "x\u2028forged", "x\xffforged",
}

// steers reports whether a terminal would take a part of text as a command, but for the ends of lines. It ignores DEL,
// which slog leaves as it is.
func steers(text string) bool {
	return strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return r < ' ' })
}

// Whatever is logged is one line in either form of the log, as message, as value, as an error or as a name.
func TestLogCannotBeForged(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		for _, text := range forgeries {
			var b bytes.Buffer
			log := newLogger(&b, "debug", format).With("with", text)
			log.ErrorContext(t.Context(), text, "value", text, text, "name", "error", errors.New(text), slog.Group("group", "in", text)) //nolint:sloglint // The message is hostile, too.
			line := b.String()
			if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || strings.Contains(line, "\x1b") || strings.Contains(line, "\x00") || strings.Contains(line, "\r") {
				t.Errorf("%s: %q is logged as %q", format, text, line)
			}
			if format == "text" && (steers(line) || len(regexp.MustCompile(`(?:^| )level=`).FindAllString(unquoted(line), -1)) != 1) {
				t.Errorf("%q is logged as %q", text, line)
			}
			var record map[string]any
			if format == "json" && (json.Unmarshal([]byte(line), &record) != nil || record["value"] != strings.ToValidUTF8(text, "\ufffd")) {
				t.Errorf("%q is logged as %q", text, line)
			}
		}
	}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// unquoted is a line of the log without what is in quotes.
func unquoted(line string) string { return quoted.ReplaceAllString(line, `""`) }

// logLine is one line of the log as text.
var logLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=("(?:[^"\\]|\\.)*"|\S+)( [^\s="]+=("(?:[^"\\]|\\.)*"|[^\s"]*))*\n$`)

// Nothing that strangers and users send by any way in reaches the output of the program or of its commands raw.
func TestRequestsDoNotForgeTheLog(t *testing.T) {
	t.Parallel()
	u := startUpIn(t, t.TempDir(), "--log-level", "debug")
	c := u.credentials(t)
	owner, tracker := signIn(t, c), client{c.BaseURL, c.APIKey}
	shown := len(u.process.text(t)) // what the first start shows once
	for _, text := range forgeries {
		name, _ := json.Marshal(text)
		for path, body := range map[string]string{
			"/v1/track": `{"agent":%s,"model":%[1]s,"metadata":{"k":%[1]s}}`, "/v1/track/batch": `[{"agent":"a","error_type":%s},{"agent":%[1]s}]`, "/v1/budgets/check": `{"agent":%s}`, "/v1/traces": `%s`,
		} {
			tracker.call(t, http.MethodPost, path, fmt.Sprintf(body, name), &struct{}{})
		}
		for path, body := range map[string]string{
			"/v1/api-keys": `{"name":%s}`, "/v1/users": `{"email":%s,"password":"a long password of mine","role":"viewer"}`, "/v1/auth/login": `{"email":%s,"password":%[1]s}`,
			"/v1/prices/overrides": `{"match":%s,"input_usd_per_mtok":1,"output_usd_per_mtok":1}`, "/v1/auth/refresh": `{"refresh_token":%s}`,
			"/v1/alerts": `{"name":%s,"metric":"cost_usd","window":"5m","condition":{"type":"above","value":0.01},"channels":[]}`,
		} {
			owner.call(t, http.MethodPost, path, fmt.Sprintf(body, name), &struct{}{})
		}
		owner.call(t, http.MethodPatch, "/v1/account", fmt.Sprintf(`{"name":%s}`, name), &struct{}{})
		sendRaw(t, u.listen, text)
	}
	tracker.call(t, http.MethodPost, "/v1/track", `{"agent":"last","cost_usd":1}`, &struct{}{})
	time.Sleep(time.Second) // What is logged of the last events, too.
	u.process.stop(t)
	lines := 0
	started, _, _ := strings.Cut(u.process.text(t), "\nOutlay is ready.")
	for line := range strings.Lines(started + u.process.text(t)[shown:]) {
		if lines++; !logLine.MatchString(line) || steers(line) {
			t.Errorf("logged %q", line)
		}
	}
	if lines < 3 {
		t.Errorf("%d lines are too few: nothing was logged", lines)
	}
}

// sendRaw sends what Go's client would not: the text as path, as headers and as method.
func sendRaw(t *testing.T, address, text string) {
	t.Helper()
	for _, request := range []string{
		"GET /%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /v1/events HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
		"GET /v1/events HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", "%s / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"POST /v1/track HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nUser-Agent: %[1]s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, request, text)
		var answer bytes.Buffer
		_, _ = answer.ReadFrom(conn)
		_ = conn.Close()
		for _, raw := range []string{"\x1b", "\nlevel=", "\ntime="} {
			if strings.Contains(answer.String(), raw) {
				t.Errorf("%q is answered %q", fmt.Sprintf(request, text), answer.String())
			}
		}
	}
}
