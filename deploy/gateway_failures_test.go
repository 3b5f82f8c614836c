package deploy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Without any replica the answer is the API's own 500: problem+json, Retry-After and the request id.
func TestGatewayAnswersProblemWhenTierIsGone(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	for _, id := range []string{"mine-2", `quo"te`} {
		answer, _ := s.send(t, "POST", "/v1/track", http.Header{"X-Request-Id": {id}}, strings.NewReader("{}"))
		checkProblem(t, answer, http.StatusInternalServerError, "Server error", id)
		if answer.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	answer, _ := s.send(t, "GET", "/v1/agents", nil, nil)
	checkProblem(t, answer, http.StatusInternalServerError, "Server error", answer.Header.Get("X-Request-Id"))
}

// What two parsers could read differently never gets past the gateway: 400, and what follows on the connection is not obeyed.
func TestGatewayRefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	s.start(t, "ingest", "127.0.0.11", true)
	s.waitFor(t, "127.0.0.11")
	const next = "POST /v1/track HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	for name, request := range map[string]string{
		"no http":          "hello\r\n\r\n",
		"space in header":  "POST /v1/track HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc",
		"two lengths":      "POST /v1/track HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"http2 in clear":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"head of 64 KiB":   "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"control in a uri": "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, request+next)
		answers := bufio.NewReader(conn)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v, want status 400", name, answer, err)
			continue
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer, err := http.ReadResponse(answers, nil); err == nil && answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: what followed was answered %d", name, answer.StatusCode)
		}
	}
}

// A replica that drains gets nothing more, and one that the resolver begins to name is used, without a restart.
func TestGatewayFollowsReplicas(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	first := s.start(t, "ingest", "127.0.0.11", true)
	s.start(t, "ingest", "127.0.0.12", true)
	s.waitFor(t, "127.0.0.11", "127.0.0.12")

	first.ready.Store(false)
	eventually(t, "a draining replica is left alone", func() bool {
		for range 20 {
			if _, got := s.send(t, "POST", "/v1/track", nil, nil); got.ReplicaIP == first.ip {
				return false
			}
		}
		return true
	})
	s.start(t, "ingest", "127.0.0.13", true)
	s.waitFor(t, "127.0.0.12", "127.0.0.13")
}

// Checks that fail everywhere do not close the service: ingest goes on without its database whatever its readiness states.
func TestGatewayTriesUnreadyReplicasWhenNoneIsReady(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	s.start(t, "ingest", "127.0.0.11", false)
	s.waitFor(t, "127.0.0.11")
	eventually(t, "the gateway counts no ready replica", func() bool {
		return strings.Contains(s.metrics(t), `haproxy_backend_active_servers{proxy="ingest"} 0`)
	})
	if answer, got := s.send(t, "POST", "/v1/track", nil, nil); got.ReplicaIP != "127.0.0.11" {
		t.Errorf("status %d, want the answer of the replica", answer.StatusCode)
	}
}

// A replica that dies before it answers costs nobody anything who may safely be tried again; what might then be recorded twice is not repeated.
func TestGatewayRepeatsOnlyWhatIsSafe(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	dying := s.start(t, "ingest", "127.0.0.11", true)
	s.start(t, "ingest", "127.0.0.12", true)
	s.waitFor(t, "127.0.0.11", "127.0.0.12")
	dying.dies.Store(true)

	for _, c := range []struct {
		name, method string
		header       http.Header
		safe         bool
	}{
		{"read", "GET", nil, true},
		{"event with a key", "POST", http.Header{"Idempotency-Key": {"k"}}, true},
		{"event without a key", "POST", nil, false},
	} {
		before, failed := dying.requests.Load(), 0
		const tries = 10
		for range tries {
			// A connection that is closed without an answer is one more way to say that the outcome is unknown.
			answer, _, err := s.trySend(t, c.method, "/v1/track", c.header, nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				failed++
			}
		}
		met := int(dying.requests.Load() - before)
		if met == 0 || c.safe && failed > 0 || !c.safe && failed != met {
			t.Errorf("%s: %d of %d requests met the dying replica, %d failed", c.name, met, tries, failed)
		}
	}
}

func checkProblem(t *testing.T, answer *http.Response, status int, title, requestID string) {
	t.Helper()
	var problem struct {
		Title, Detail, Code string
		Status              int
		RequestID           string `json:"request_id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		t.Errorf("body is not JSON: %v", err)
	}
	if answer.StatusCode != status || problem.Status != status || problem.Title != title || problem.Code == "" || problem.Detail == "" || problem.RequestID != requestID {
		t.Errorf("status %d, problem %+v, want %d %q with request id %q", answer.StatusCode, problem, status, title, requestID)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("Content-Type = %q", kind)
	}
}
