package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Public addresses are permitted, as are those that the operator allows, also where they are written as version 6; all others are not.
func TestPermits(t *testing.T) {
	t.Parallel()
	open := NewPolicy(DefaultConfig())
	for _, address := range []string{
		"1.1.1.1", "93.184.216.34", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1", "172.32.0.1", "172.15.255.255", "100.128.0.1",
		"100.63.255.255", "11.0.0.1", "9.255.255.255", "198.17.255.255", "198.20.0.1", "223.255.255.255", "2001:200::1", "2003::1",
	} {
		if !open.Permits(netip.MustParseAddr(address)) {
			t.Errorf("%s is refused", address)
		}
	}
	for _, address := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255",
		"192.168.0.1", "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::1", "::", "fd00::1", "fc00::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
		"::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::1",
		"2002:808:808::1", "2001::1", "2001:20::1", "2001:db8::1", "100::1", "3fff::1", "5f00::1",
	} {
		if open.Permits(netip.MustParseAddr(address)) {
			t.Errorf("%s is permitted", address)
		}
	}
	some := NewPolicy(Config{AllowCIDRs: []string{"10.1.0.0/16", "fd00:1::/32"}})
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd00:1::5": true, "fd00:2::5": false, "127.0.0.1": false, "9.9.9.9": true,
	} {
		if got := some.Permits(netip.MustParseAddr(address)); got != want {
			t.Errorf("Permits(%s) = %v, want %v", address, got, want)
		}
	}
	if open.Permits(netip.Addr{}) {
		t.Error("no address is permitted")
	}
}

// names is a resolver that knows these names.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	texts, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	addresses := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addresses[i] = netip.MustParseAddr(text)
	}
	return addresses, nil
}

var known = names{
	"public.example": {"93.184.216.34", "2606:4700::1111"}, "private.example": {"10.0.0.1"}, "mixed.example": {"93.184.216.34", "127.0.0.1"},
	"mapped.example": {"::ffff:127.0.0.1"}, "localhost": {"127.0.0.1", "::1"}, "metadata.internal": {"169.254.169.254"},
	// What a resolver of the C library makes of other ways to write an address.
	"2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"},
	"empty.example": {},
}

// An address is refused for its scheme, its port, the form of its host, or where it leads, with words that name the setting.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := NewPolicy(DefaultConfig())
	for address, want := range map[string]string{
		"https://public.example/hook": "", "https://public.example.:443/": "", "https://public.example:80/": "", "https://public.example:8443/": "",
		"https://public.example:1024/": "", "https://93.184.216.34/": "", "https://[2606:4700::1111]/": "", "https://PUBLIC.example/": messageUnknown,

		"http://public.example/": messageScheme, "http://127.0.0.1/": messageScheme,
		"https://public.example:22/": messagePort, "https://public.example:25/": messagePort, "https://public.example:1023/": messagePort,
		"https://public.example:0/": messageBadPort, "https://public.example:65536/": messageBadPort, "https://public.example:99999999999999999999/": messageBadPort,

		"https://127.0.0.1/": messageAddress, "https://127.0.0.1:8443/": messageAddress, "https://10.0.0.1/": messageAddress, "https://[::1]/": messageAddress,
		"https://[::ffff:127.0.0.1]/": messageAddress, "https://[64:ff9b::7f00:1]/": messageAddress, "https://[2002:7f00:1::]/": messageAddress,
		"https://[fe80::1%25eth0]/": messageAddress, "https://100.64.0.1/": messageAddress, "https://224.0.0.1/": messageAddress,
		"https://0.0.0.0/": messageAddress, "https://169.254.169.254/latest": messageAddress,
		"https://private.example/": messageAddress, "https://mixed.example/": messageAddress, "https://mapped.example/": messageAddress,
		"https://localhost/": messageAddress, "https://metadata.internal/": messageAddress,

		"https://2130706433/": messageHost, "https://0x7f000001/": messageHost, "https://127.1/": messageHost, "https://0177.0.0.1/": messageHost,
		"https://127.0.0.1./": messageHost, "https://0x7f.0.0.0x1/": messageHost, "https://１２７.0.0.1/": messageHost, "https://127。0。0。1/": messageHost,
		"https://bücher.example/": messageHost, "https://./": messageHost, "https://a b/": messageHost, "https://public.example,x/": messageHost,
		"https://256.1.1.1/": messageHost,

		"https://nowhere.example/": messageUnknown, "https://empty.example/": messageUnknown,
	} {
		if got := p.Check(t.Context(), known, address); got != want {
			t.Errorf("Check(%s) = %q, want %q", address, got, want)
		}
	}
}

// What the operator permits is permitted, and nothing else with it.
func TestCheckWithPermissions(t *testing.T) {
	t.Parallel()
	p := NewPolicy(Config{AllowCIDRs: []string{"10.0.0.0/8"}, AllowHTTP: true, AllowPorts: []int{25}})
	for address, want := range map[string]string{
		"http://public.example/": "", "https://public.example:25/": "", "http://10.0.0.1/": "", "https://private.example/": "",
		"https://public.example:22/": messagePort, "http://127.0.0.1/": messageAddress, "https://mixed.example/": messageAddress,
	} {
		if got := p.Check(t.Context(), known, address); got != want {
			t.Errorf("Check(%s) = %q, want %q", address, got, want)
		}
	}
}

// silent answers nothing until it is given up.
type silent struct{}

func (silent) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A name server that does not answer does not hold up a request for longer than its time.
func TestCheckGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := NewPolicy(DefaultConfig()).Check(ctx, silent{}, "https://public.example/"); got != messageUnknown {
		t.Errorf("Check = %q, want %q", got, messageUnknown)
	}
}

// A bad setting is named.
func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for flag, c := range map[string]Config{
		"--webhook-allow-cidr": {AllowCIDRs: []string{"10.0.0.1"}}, "--webhook-allow-port": {AllowPorts: []int{0}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Control refuses what is not an address, as it refuses addresses that are not public.
func TestControl(t *testing.T) {
	t.Parallel()
	p := NewPolicy(DefaultConfig())
	for address, want := range map[string]error{"93.184.216.34:443": nil, "127.0.0.1:443": ErrAddress, "[::1]:443": ErrAddress, "somewhere": ErrAddress} {
		if err := p.Control("tcp", address, nil); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("Control(%s) = %v, want %v", address, err, want)
		}
	}
}
