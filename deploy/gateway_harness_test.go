package deploy

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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

// seen is what a replica was asked.
type seen struct {
	Tier      string
	Method    string
	URI       string
	Bytes     int64
	Header    http.Header
	ReplicaIP string
}

// startStack starts the gateway without any replica. env is added to its environment.
func startStack(t *testing.T, env ...string) *stack {
	t.Helper()
	haproxy := tool(t, "haproxy")
	s := &stack{port: freePort(t), opsPort: freePort(t), names: startNameServer(t)}
	files := make([]*os.File, 3)
	for i := range files {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if files[i], err = l.(*net.TCPListener).File(); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
		switch i {
		case 0:
			s.url = "http://" + l.Addr().String()
		case 1:
			s.tlsAddr = l.Addr().String()
		case 2:
			s.opsURL = "http://" + l.Addr().String()
		}
	}
	cmd := exec.Command(haproxy, "-db", "-f", s.writeConfig(t))
	cmd.Env = append(os.Environ(), env...)
	cmd.ExtraFiles = files
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

// replica is one process of a tier: its public listener and its operations listener.
type replica struct {
	ip    string
	ready atomic.Bool
}

// start runs a replica of tier at ip and lets the name server know it.
func (s *stack) start(t *testing.T, tier, ip string, ready bool) *replica {
	t.Helper()
	r := &replica{ip: ip}
	r.ready.Store(ready)
	serve(t, net.JoinHostPort(ip, s.port), func(w http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(seen{
			Tier: tier, Method: req.Method, URI: req.RequestURI, Bytes: n, Header: req.Header, ReplicaIP: ip,
		})
	})
	serve(t, net.JoinHostPort(ip, s.opsPort), func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/readyz" || !r.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s.names.add(tier, ip)
	return r
}

func serve(t *testing.T, addr string, h http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

// freePort finds a port for replicas on several loopback addresses; outside the range from which the system gives ports away.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + int(nextPort.Add(1)))
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			continue
		}
		l.Close()
		return port
	}
	t.Fatal("no free port")
	return ""
}

var nextPort atomic.Int32

// eventually asks until ok says yes; the gateway learns of replicas within seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// nameServer answers A questions as a container engine does: one record for each running replica.
type nameServer struct {
	addr string
	mu   sync.Mutex
	ips  map[string][]string
}

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := &nameServer{addr: conn.LocalAddr().String(), ips: map[string][]string{}}
	go n.run(conn)
	return n
}

func (n *nameServer) add(name, ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ips[name] = append(n.ips[name], ip)
}

func (n *nameServer) run(conn net.PacketConn) {
	buf := make([]byte, 8192)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var question dnsmessage.Message
		if question.Unpack(buf[:size]) != nil || len(question.Questions) == 0 {
			continue
		}
		if reply, err := n.answer(question); err == nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func (n *nameServer) answer(m dnsmessage.Message) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := m.Questions[0]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true}, Questions: m.Questions}
	if q.Type == dnsmessage.TypeA {
		for _, ip := range n.ips[strings.TrimSuffix(q.Name.String(), ".")] {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 600},
				Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(ip).To4())},
			})
		}
	}
	return reply.Pack()
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
