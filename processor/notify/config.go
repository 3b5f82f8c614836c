package notify

import (
	"fmt"
	"net/netip"
)

// Config says how messages are sent.
type Config struct {
	// AllowCIDRs are address ranges that webhooks may reach although they are not
	// public.
	AllowCIDRs []string `name:"webhook-allow-cidr" placeholder:"CIDR" help:"Private address ranges that webhooks may be sent to, such as 10.1.0.0/16. Without any, only public addresses may."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{} }

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	_, err := c.prefixes()
	return err
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
