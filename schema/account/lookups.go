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

// LookupsPerMinute is how many keys that turn out not to be good the database is asked for in a minute for one network.
const LookupsPerMinute = 60

// maxNetworks bounds the memory of networks; when it is full it starts anew.
const maxNetworks = 10_000

// maxCounted bounds the memory of counted keys; when it is full it starts anew, and a key may be counted twice.
const maxCounted = 10_000

// networks counts the keys that each network has looked up in a minute, so that one that guesses keys does not keep others from the
// few look-ups that run at once. It is safe for concurrent use.
type networks struct {
	now func() time.Time

	mu      sync.Mutex
	minute  time.Time
	counts  map[netip.Prefix]int
	counted map[Hash]netip.Prefix // the network that each key of counts is counted for

	refused atomic.Int64
}

// take counts a key that is about to be looked up, once in a minute, and reports whether the network may look it up.
func (n *networks) take(address string, h Hash) bool {
	network := networkOf(address)
	minute := n.now().Truncate(time.Minute)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !minute.Equal(n.minute) || len(n.counts) >= maxNetworks {
		n.minute, n.counts, n.counted = minute, map[netip.Prefix]int{}, map[Hash]netip.Prefix{}
	}
	if _, ok := n.counted[h]; ok {
		return true
	}
	if n.counts[network] >= LookupsPerMinute {
		n.refused.Add(1)
		return false
	}
	if len(n.counted) >= maxCounted {
		clear(n.counted)
	}
	n.counts[network]++
	n.counted[h] = network
	return true
}

// giveBack takes a key out of the count: it is good, or could not be looked up. It was counted before, so that those who send many at
// once do not go beyond the limit.
func (n *networks) giveBack(h Hash) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if network, ok := n.counted[h]; ok {
		delete(n.counted, h)
		n.counts[network]--
	}
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
