package account

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Asker is whom a key comes from; *gin.Context is one.
type Asker interface {
	// ClientIP returns the address of the client.
	ClientIP() string
}

// LookupsPerMinute is how many keys that are not in memory the database is asked for in a minute for one network. Who sends
// good keys needs hardly any: a key that was just made is in memory within a second.
const LookupsPerMinute = 60

// maxNetworks bounds the memory of networks; when it is full it starts anew.
const maxNetworks = 10_000

// networks counts the look-ups of each network in a minute, so that one that guesses keys does not keep others from the few that run
// at once. It is safe for concurrent use.
type networks struct {
	now func() time.Time

	mu     sync.Mutex
	minute time.Time
	counts map[netip.Prefix]int

	refused atomic.Int64
}

// take counts a look-up, and reports whether the network may have it.
func (n *networks) take(address string) bool {
	network := networkOf(address)
	minute := n.now().Truncate(time.Minute)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !minute.Equal(n.minute) || len(n.counts) >= maxNetworks {
		n.minute, n.counts = minute, map[netip.Prefix]int{}
	}
	if n.counts[network] >= LookupsPerMinute {
		n.refused.Add(1)
		return false
	}
	n.counts[network]++
	return true
}

// networkOf returns the network that an address is counted for: the first 24 bits of an IPv4 address and the first 64 of an IPv6
// address, as many as one stranger may well have all of. What is no address is of one network.
func networkOf(address string) netip.Prefix {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 24
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		panic("BUG: every address has so many bits: " + err.Error())
	}
	return network
}
