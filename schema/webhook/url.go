package webhook

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Resolver looks names up, as net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	maxPort = 65535
	// systemPorts are below this one. Services that are not web servers listen there.
	systemPorts = 1024
	// lookUpTimeout bounds looking up one name.
	lookUpTimeout = 3 * time.Second
)

// What is wrong with an address, for the person who gave it. None of it shows what a name leads to: names of a private network are
// nobody else's business.
const (
	messageScheme  = "must start with https://; the operator can permit http:// with --webhook-allow-http"
	messagePort    = "must not use this port: of those below 1024 only 80 and 443; the operator can permit it with --webhook-allow-port"
	messageBadPort = "must have a port from 1 to 65535"
	messageHost    = "must name a host by its name in ASCII letters (xn--… for others), by four decimal numbers, or by an IPv6 address in brackets"
	messageAddress = "must lead to a public address; the operator can permit a private range with --webhook-allow-cidr"
	messageUnknown = "names a host that cannot be found; check the spelling, or try again in a moment if the name is new"
)

// CheckURL returns what is wrong with the scheme, the port or the form of the host of an address that messages are sent to, or "".
// The address was parsed before: it is an absolute one of http or https. It looks up nothing.
func (p *Policy) CheckURL(u *url.URL) string {
	switch {
	case u.Scheme != "https" && !p.plainHTTP:
		return messageScheme
	case !validHost(u.Hostname()):
		return messageHost
	case u.Port() == "":
		return ""
	}
	port, err := strconv.Atoi(u.Port())
	switch {
	case err != nil || port < 1 || port > maxPort:
		return messageBadPort
	case port < systemPorts && port != 80 && port != 443 && !slices.Contains(p.ports, port):
		return messagePort
	}
	return ""
}

// Check is CheckURL and looks up where the address leads: everywhere that it does has to be permitted. A name that cannot be found
// is refused as well. Names change, so the address of each connection is checked again by Control.
func (p *Policy) Check(ctx context.Context, names Resolver, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return messageHost
	}
	if message := p.CheckURL(u); message != "" {
		return message
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		return p.checkAddresses([]netip.Addr{literal})
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found, err := names.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || len(found) == 0 {
		return messageUnknown
	}
	return p.checkAddresses(found)
}

func (p *Policy) checkAddresses(addresses []netip.Addr) string {
	for _, address := range addresses {
		if !p.Permits(address) {
			return messageAddress
		}
	}
	return ""
}

// validHost reports whether a host is a name, or an address as it is usually written. Others, such as 2130706433, 0x7f.1 or ones in
// full-width digits, lead some resolvers to addresses that they hide.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := strings.TrimSuffix(host, ".")
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}) {
		return false
	}
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	if strings.HasPrefix(last, "0x") {
		return false
	}
	return last != "" && strings.Trim(last, "0123456789") != ""
}
