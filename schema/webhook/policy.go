package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrAddress is returned for a connection to where messages are not sent.
var ErrAddress = errors.New("not a public address")

// Policy decides where messages are sent.
type Policy struct {
	allowed   []netip.Prefix
	special   []netip.Prefix
	plainHTTP bool
	ports     []int
}

// special returns the addresses that are not public, by the registries of special addresses.
func special() []netip.Prefix {
	texts := []string{
		// Of version 4: this network, private, shared by carriers, loopback, link-local, protocol assignments, documentation,
		// benchmarks, relays, multicast, reserved.
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		// Of version 6: what holds an address of version 4 inside (Teredo, 6to4), and documentation. Everything else that is not
		// public, translated addresses (NAT64) included, lies outside of globalUnicast.
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	}
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// globalUnicast holds all public addresses of version 6.
const globalUnicast = "2000::/3"

// Control refuses connections for a net.Dialer. It is called with the address that the connection is about to be made to, after
// every name was looked up, so a name that leads elsewhere at a second look gains nothing. It returns ErrAddress.
func (p *Policy) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if !p.Permits(at.Addr()) {
		return ErrAddress
	}
	return nil
}

// Permits reports whether messages may be sent to an address: it is public, or the operator allows it.
func (p *Policy) Permits(address netip.Addr) bool {
	// An address of version 4 that is written as one of version 6 is what it is.
	address = address.Unmap().WithZone("")
	if within(p.allowed, address) {
		return true
	}
	if address.Is6() && !netip.MustParsePrefix(globalUnicast).Contains(address) {
		return false
	}
	return address.IsValid() && !within(p.special, address)
}

func within(prefixes []netip.Prefix, address netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(address) {
			return true
		}
	}
	return false
}
