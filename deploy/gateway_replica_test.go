package deploy

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// replica is one process of a tier: its public listener and its operations listener.
type replica struct {
	ip       string
	ready    atomic.Bool
	dies     atomic.Bool // while it has a request in hand
	requests atomic.Int64
}

// start runs a replica of tier at ip and lets the name server know it.
func (s *stack) start(t *testing.T, tier, ip string, ready bool) *replica {
	t.Helper()
	r := &replica{ip: ip}
	r.ready.Store(ready)
	serve(t, net.JoinHostPort(ip, s.port), func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		if r.dies.Load() {
			panic(http.ErrAbortHandler)
		}
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

// seen is what a replica was asked.
type seen struct {
	Tier      string
	Method    string
	URI       string
	Bytes     int64
	Header    http.Header
	ReplicaIP string
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
	t.Cleanup(func() { _ = conn.Close() })
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
