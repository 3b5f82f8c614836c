package deploy

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/schematest/need"
)

// stack is haproxy.cfg as it is, run by the real HAProxy, with replicas that echo what reaches them.
type stack struct {
	url     string // of the gateway
	tlsAddr string
	opsURL  string // of the gateway's own operations listener
	port    string // of every replica, each on a loopback address of its own
	opsPort string
	names   *nameServer
}

// startStack starts the gateway without any replica. env is added to its environment.
func startStack(t *testing.T, env ...string) *stack {
	t.Helper()
	haproxy := need.Program(t, "haproxy")
	s := &stack{port: reservePort(t), opsPort: reservePort(t), names: startNameServer(t)}
	public, publicAddr := listener(t)
	encrypted, tlsAddr := listener(t)
	operations, opsAddr := listener(t)
	s.url, s.tlsAddr, s.opsURL = "http://"+publicAddr, tlsAddr, "http://"+opsAddr

	cmd := exec.Command(haproxy, "-db", "-f", s.writeConfig(t))
	cmd.Env = append(os.Environ(), env...)
	cmd.ExtraFiles = []*os.File{public, encrypted, operations} // Descriptors 3, 4 and 5.
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s
}

// listener takes a free port for the gateway to inherit, so that nobody can take it in between.
func listener(t *testing.T) (file *os.File, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if file, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, l.Addr().String()
}

// writeConfig changes nothing but the addresses, each of which must be there to be changed.
func (s *stack) writeConfig(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("gateway/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for _, change := range [][2]string{
		{"bind :8080", "bind fd@3"},
		{"bind :8443", "bind fd@4"},
		{"bind :9090", "bind fd@5"},
		{"parse-resolv-conf", "nameserver test " + s.names.addr},
		{"ingest:8080", "ingest:" + s.port},
		{"query:8080", "query:" + s.port},
		{"port 9090", "port " + s.opsPort},
	} {
		if !strings.Contains(config, change[0]) {
			t.Fatalf("haproxy.cfg has no %q", change[0])
		}
		config = strings.ReplaceAll(config, change[0], change[1])
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reservePort finds a port that replicas can have on several loopback addresses. Holding it on an address that none of them has keeps it from other tests.
func reservePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// eventually asks until ok returns true; the gateway learns of replicas within seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
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
	answer, got, err := s.trySend(t, method, path, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, got
}

func (s *stack) trySend(t *testing.T, method, path string, header http.Header, body io.Reader) (*http.Response, seen, error) {
	t.Helper()
	var got seen
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
		return nil, got, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, got, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	if answer.StatusCode == http.StatusOK && method != http.MethodHead {
		if err := json.Unmarshal(text, &got); err != nil {
			return nil, got, err
		}
	}
	return answer, got, nil
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
