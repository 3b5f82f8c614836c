// Package webhook is what the tiers agree on about where webhooks and Slack messages may be sent: which addresses, schemes and ports.
// The query tier refuses others when they are given, the processor when it is about to connect.
package webhook

import (
	"fmt"
	"net/netip"
	"slices"
)

// Config is what the operator permits besides public addresses over https. The query tier and the processor are given the same.
type Config struct {
	// AllowCIDRs are address ranges that webhooks may reach although they are not public.
	AllowCIDRs []string `name:"webhook-allow-cidr" placeholder:"CIDR" help:"Private address ranges that webhooks may be sent to, such as 10.1.0.0/16. Without any, only public addresses may. The same on query and processor."`
	// AllowHTTP permits addresses that start with http://.
	AllowHTTP bool `name:"webhook-allow-http" help:"Permit webhook and Slack addresses that start with http://. The same on query and processor."`
	// AllowPorts are ports below 1024 that may be used besides 80 and 443.
	AllowPorts []int `name:"webhook-allow-port" placeholder:"PORT" help:"Ports below 1024, besides 80 and 443, that webhooks may be sent to. The same on query and processor."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{} }

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	if _, err := c.prefixes(); err != nil {
		return err
	}
	for _, port := range c.AllowPorts {
		if port < 1 || port > maxPort {
			return fmt.Errorf("--webhook-allow-port: %d is not a port from 1 to %d", port, maxPort)
		}
	}
	return nil
}

func (c Config) prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(c.AllowCIDRs))
	for i, text := range c.AllowCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--webhook-allow-cidr: %q is not an address range such as 10.1.0.0/16", text)
		}
		prefixes[i] = p.Masked()
	}
	return prefixes, nil
}

// NewPolicy returns the policy of a configuration, which was validated.
func NewPolicy(c Config) *Policy {
	prefixes, err := c.prefixes()
	if err != nil {
		panic("BUG: the configuration was not validated: " + err.Error())
	}
	return &Policy{allowed: prefixes, special: special(), plainHTTP: c.AllowHTTP, ports: slices.Clone(c.AllowPorts)}
}
