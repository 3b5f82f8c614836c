package deploy

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// Behind other proxies that were named, the client is the last address that is none of theirs; what stands in front of it is the client's own invention.
func TestGatewayFindsTheClientBehindOtherProxies(t *testing.T) {
	t.Parallel()
	s := startStack(t, "OUTLAY_TRUSTED_PROXIES=127.0.0.0/8 10.0.0.0/8")
	s.start(t, "query", "127.0.0.21", true)
	s.waitFor(t, "127.0.0.21")

	for _, c := range []struct {
		name      string
		forwarded []string
		client    string
	}{
		{"none", nil, "127.0.0.1"},
		{"one proxy", []string{"192.0.2.7"}, "192.0.2.7"},
		{"a forged address in front", []string{"6.6.6.6, 192.0.2.7"}, "192.0.2.7"},
		{"a forged line in front", []string{"6.6.6.6", "192.0.2.7"}, "192.0.2.7"},
		{"two proxies", []string{"6.6.6.6, 192.0.2.7, 10.0.0.2"}, "192.0.2.7"},
		{"three proxies", []string{"6.6.6.6, 192.0.2.7, 10.1.0.2, 10.0.0.2"}, "192.0.2.7"},
		{"a client with a proxy's address", []string{"10.0.0.9"}, "10.0.0.9"},
		{"IPv6", []string{"6.6.6.6, 2001:db8::7"}, "2001:db8::7"},
		{"no address at the end", []string{"6.6.6.6, unknown"}, "127.0.0.1"},
	} {
		_, got := s.send(t, "GET", "/v1/agents", http.Header{"X-Forwarded-For": c.forwarded, "X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"6.6.6.6"}}, nil)
		if diff := cmp.Diff([]string{c.client}, got.Header.Values("X-Forwarded-For")); diff != "" {
			t.Errorf("%s: client (-want +got):\n%s", c.name, diff)
		}
		if scheme := got.Header.Get("X-Forwarded-Proto"); scheme != "https" || got.Header.Get("X-Real-Ip") != "" {
			t.Errorf("%s: scheme %q, headers %v", c.name, scheme, got.Header)
		}
	}
}

// With a certificate the gateway speaks TLS, and notifies the tiers of it.
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

// certificate makes one for 127.0.0.1 and writes it with its key, as HAProxy wants them, into one file.
func certificate(t *testing.T) (pemFile string, trust *x509.CertPool) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), cert...)
	pemFile = filepath.Join(t.TempDir(), "gateway.pem")
	if err := os.WriteFile(pemFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(cert)
	return pemFile, trust
}
