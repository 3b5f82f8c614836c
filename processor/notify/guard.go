package notify

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress means that a name leads where messages are not sent to.
var errAddress = errors.New("not a public address")

// guard decides which addresses are connected to. It is asked with the address that
// the connection is about to be made to, after every name was looked up, so a name
// that leads elsewhere at a second look gains nothing.
type guard struct {
	allowed []netip.Prefix
	special []netip.Prefix
}

func newGuard(allowed []netip.Prefix) *guard {
	g := &guard{allowed: allowed}
	for _, text := range []string{
		// What is not a public address of version 4, by the registry of special
		// addresses: this network, private, shared by carriers, loopback, link-local,
		// protocol assignments, documentation, benchmarks, relays, multicast, reserved.
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		// Of version 6: what holds an address of version 4 inside (Teredo, 6to4), and
		// documentation. Everything else that is not public lies outside of 2000::/3.
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		g.special = append(g.special, netip.MustParsePrefix(text))
	}
	return g
}

// control refuses connections for a net.Dialer.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", errAddress, err)
	}
	if !g.permits(at.Addr()) {
		return errAddress
	}
	return nil
}

func (g *guard) permits(address netip.Addr) bool {
	// An address of version 4 that is written as one of version 6 is what it is.
	address = address.Unmap().WithZone("")
	if within(g.allowed, address) {
		return true
	}
	if address.Is6() && !netip.MustParsePrefix("2000::/3").Contains(address) {
		return false
	}
	return address.IsValid() && !within(g.special, address)
}

func within(prefixes []netip.Prefix, address netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(address) {
			return true
		}
	}
	return false
}
