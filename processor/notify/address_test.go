package notify

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/outlayhq/outlay/schema/webhook"
)

// newPoster returns a poster that also sends to these ranges, and over plain HTTP.
func newPoster(t *testing.T, names *net.Resolver, allowed ...string) *poster {
	t.Helper()
	policy := webhook.NewPolicy(webhook.Config{AllowCIDRs: allowed, AllowHTTP: true})
	return &poster{policy, newClient(policy, names), time.Now}
}

// What the operator does not permit any more is not called, also where it was permitted when it was given.
func TestSchemeAndPortAreCheckedAgain(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(receiver.Close)
	policy := webhook.NewPolicy(webhook.Config{AllowCIDRs: []string{"127.0.0.0/8"}})
	p := &poster{policy, newClient(policy, nil), time.Now}
	for _, address := range []string{receiver.URL, "https://127.0.0.1:25/"} {
		if got := p.webhook(t.Context(), to(address)); got.outcome != outcomeAddress {
			t.Errorf("%s: %+v, want %s", address, got, outcomeAddress)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the receiver was reached %d times", n)
	}
}

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// to is a message to an address.
func to(address string) *delivery {
	return &delivery{ChannelType: "webhook", Address: address, Secret: testSecret, Payload: `{"type":"alert.firing"}`}
}

// Only public addresses are connected to, in whatever way an address that is not is
// written, named or redirected to.
func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(private.Close)
	_, port, _ := net.SplitHostPort(private.Listener.Addr().String())
	for _, host := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
		"192.168.0.1", "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"[::1]", "[::]", "[fd00::1]", "[fc00::1]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[::ffff:10.0.0.1]", "[::ffff:127.0.0.1]",
		"[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::1]",
		"[2002:a00:1::]", "[2001::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "[5f00::1]", "localhost",
	} {
		if got := newPoster(t, nil).webhook(t.Context(), to("http://"+host+":"+port)); got.outcome != outcomeAddress {
			t.Errorf("%s: %+v, want %s", host, got, outcomeAddress)
		}
	}
	t.Run("a name that rebinds", func(t *testing.T) {
		names := rebinding(t)
		if found, err := names.LookupHost(t.Context(), "rebind.example."); err != nil || found[0] != "93.184.216.34" {
			t.Fatalf("at first the name leads to %v, %v", found, err)
		}
		got := newPoster(t, names).webhook(t.Context(), to("http://rebind.example.:"+port))
		if got.outcome != outcomeAddress {
			t.Errorf("%+v, want %s", got, outcomeAddress)
		}
	})
	t.Run("a redirect", func(t *testing.T) {
		// 127.0.0.1 stands for a public address: it is allowed, 127.0.0.2 is not.
		public := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:"+port, http.StatusTemporaryRedirect))
		t.Cleanup(public.Close)
		got := newPoster(t, nil, "127.0.0.1/32").webhook(t.Context(), to(public.URL))
		if got != (result{outcomeRedirect, http.StatusTemporaryRedirect}) {
			t.Errorf("%+v, want %s", got, outcomeRedirect)
		}
	})
	if n := reached.Load(); n != 0 {
		t.Errorf("the private server was reached %d times", n)
	}
	// The same server is reached where the operator allows it: the test can fail.
	if got := newPoster(t, nil, "127.0.0.0/8").webhook(t.Context(), to(private.URL)); got.outcome != outcomeDelivered || reached.Load() != 1 {
		t.Errorf("allowed: %+v", got)
	}
}

// The environment's proxy is not used, which would connect for us unguarded.
func TestNoProxyIsUsed(t *testing.T) {
	proxied := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	t.Cleanup(proxied.Close)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxied.URL)
	}
	if got := newPoster(t, nil).webhook(t.Context(), to("http://10.0.0.1/")); got.outcome != outcomeAddress {
		t.Errorf("%+v, want %s", got, outcomeAddress)
	}
}

// rebinding is a resolver whose name leads to a public address at first and to this
// machine from then on.
func rebinding(t *testing.T) *net.Resolver {
	t.Helper()
	var config net.ListenConfig
	server, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go answerNames(server)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// answerNames answers until the socket is closed.
func answerNames(server net.PacketConn) {
	asked := 0
	for buf := make([]byte, 512); ; {
		n, from, err := server.ReadFrom(buf)
		if err != nil {
			return
		}
		var question dnsmessage.Message
		if err := question.Unpack(buf[:n]); err != nil {
			continue
		}
		reply := dnsmessage.Message{Header: dnsmessage.Header{ID: question.ID, Response: true, RecursionAvailable: true}, Questions: question.Questions}
		if q := question.Questions[0]; q.Type == dnsmessage.TypeA {
			address := [4]byte{93, 184, 216, 34}
			if asked++; asked > 1 {
				address = [4]byte{127, 0, 0, 1}
			}
			reply.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: address},
			}}
		}
		if text, err := reply.Pack(); err == nil {
			_, _ = server.WriteTo(text, from)
		}
	}
}
