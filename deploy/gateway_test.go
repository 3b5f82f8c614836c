package deploy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every endpoint reaches its tier, and its path arrives exactly as the client wrote it.
func TestGatewayRoutesByMethodAndPathAsSent(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	s.start(t, "ingest", "127.0.0.11", true)
	s.start(t, "query", "127.0.0.21", true)
	s.waitFor(t, "127.0.0.11", "127.0.0.21")

	for _, c := range []struct{ method, path, tier string }{
		{"POST", "/v1/track", "ingest"},
		{"POST", "/v1/track?x=1", "ingest"},
		{"GET", "/v1/track", "ingest"}, // which answers 405
		{"POST", "/v1/track/batch", "ingest"},
		{"POST", "/v1/traces", "ingest"},
		{"POST", "/v1/budgets/check", "ingest"},
		{"POST", "/v1/events", "ingest"},
		{"GET", "/v1/events", "query"},
		{"GET", "/v1/events?agent=a%2Fb", "query"},
		{"HEAD", "/v1/events", "query"},
		{"GET", "/v1/events/evt_01jd", "query"},
		{"GET", "/v1/events/export", "query"},
		{"GET", "/v1/budgets", "query"},
		{"POST", "/v1/auth/login", "query"},
		{"PUT", "/v1/agents/team%2Fbot%20%C3%A9/budget", "query"},
		{"GET", "/v1/agents/..%2Ftrack", "query"},
		{"GET", "/v1/agents/..%2F..%2F..%2F..%2Fx", "query"},
		{"POST", "/v1/agents/x/../../events", "query"},
		{"POST", "/v1%2Ftrack", "query"},
		{"POST", "//v1/track", "query"},
		{"POST", "/v1/tracks", "query"},
		{"GET", "/", "query"},
	} {
		answer, got := s.send(t, c.method, c.path, nil, nil)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s %s: status %d", c.method, c.path, answer.StatusCode)
			continue
		}
		if c.method == "HEAD" {
			continue
		}
		if got.Tier != c.tier || got.Method != c.method || got.URI != c.path {
			t.Errorf("%s %s reached %s as %s %s, want %s", c.method, c.path, got.Tier, got.Method, got.URI, c.tier)
		}
	}
}

// The largest batch the API allows passes whole, whether its length is announced or not.
func TestGatewayPassesTheLargestBatch(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	s.start(t, "ingest", "127.0.0.11", true)
	s.waitFor(t, "127.0.0.11")
	const batchBytes = 4 << 20
	body := bytes.Repeat([]byte("x"), batchBytes)

	for name, r := range map[string]io.Reader{"length": bytes.NewReader(body), "chunked": io.MultiReader(bytes.NewReader(body))} {
		answer, got := s.send(t, "POST", "/v1/track/batch", nil, r)
		if answer.StatusCode != http.StatusOK || got.Bytes != batchBytes {
			t.Errorf("%s: status %d, %d bytes arrived, want 200 and %d", name, answer.StatusCode, got.Bytes, batchBytes)
		}
	}
}

// A tier learns the caller's address from the gateway alone; the caller's credential and request id pass untouched.
func TestGatewayReplacesForgedAddresses(t *testing.T) {
	t.Parallel()
	s := startStack(t)
	s.start(t, "query", "127.0.0.21", true)
	s.waitFor(t, "127.0.0.21")

	answer, got := s.send(t, "GET", "/v1/agents", http.Header{
		"X-Forwarded-For": {"6.6.6.6", "7.7.7.7"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=6.6.6.6"}, "X-Real-Ip": {"6.6.6.6"},
		"Authorization": {"Bearer x"}, "X-Request-Id": {"mine-1"},
	}, nil)

	want := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {strings.TrimPrefix(s.url, "http://")},
		"Authorization": {"Bearer x"}, "X-Request-Id": {"mine-1"},
	}
	for _, name := range []string{"Accept-Encoding", "User-Agent", "Connection"} {
		got.Header.Del(name)
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers that arrived (-want +got):\n%s", diff)
	}
	if id := answer.Header.Get("X-Request-Id"); id != "mine-1" {
		t.Errorf("answer's X-Request-Id = %q, want mine-1", id)
	}
}

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

// Checks that fail everywhere do not close the service: ingest goes on without its database whatever its readiness says.
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

// With a certificate the gateway speaks TLS, and tells the tiers so.
func TestGatewaySpeaksTLSWhenGivenACertificate(t *testing.T) {
	t.Parallel()
	pemFile, pool := certificate(t)
	s := startStack(t, "OUTLAY_TLS_CERTIFICATE="+pemFile)
	s.start(t, "query", "127.0.0.21", true)
	s.waitFor(t, "127.0.0.21")

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	answer, err := client.Get("https://" + s.tlsAddr + "/v1/agents/a%2Fb")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got seen
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.URI != "/v1/agents/a%2Fb" || got.Header.Get("X-Forwarded-Proto") != "https" || answer.ProtoMajor != 2 {
		t.Errorf("%s over HTTP/%d, forwarded as %q", got.URI, answer.ProtoMajor, got.Header.Get("X-Forwarded-Proto"))
	}
}

// waitFor returns when every one of the replicas has answered.
func (s *stack) waitFor(t *testing.T, ips ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, ip := range ips {
		missing[ip] = true
	}
	eventually(t, "requests reach all of "+strings.Join(ips, ", "), func() bool {
		for _, path := range []string{"/v1/track", "/"} {
			_, got := s.send(t, "POST", path, nil, nil)
			delete(missing, got.ReplicaIP)
		}
		return len(missing) == 0
	})
}

// send puts path on the wire byte for byte. What the replica saw is zero when none answered; the answer's body can still be read then.
func (s *stack) send(t *testing.T, method, path string, header http.Header, body io.Reader) (*http.Response, seen) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url, body)
	if err != nil {
		t.Fatal(err)
	}
	base := req.URL
	req.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Opaque: path}
	if strings.HasPrefix(path, "//") {
		req.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path}
	}
	if header != nil {
		req.Header = header
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var got seen
	if answer.StatusCode == http.StatusOK && method != http.MethodHead {
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
	}
	return answer, got
}

// metrics is what Prometheus scrapes from the gateway.
func (s *stack) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(s.opsURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("metrics of the gateway: status %d, %v", answer.StatusCode, err)
	}
	return string(text)
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
