package auth

import (
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Throttle makes guessing passwords slow. It counts failed sign-ins of an e-mail
// address from a network, of the e-mail address from anywhere, and of the network
// for any e-mail address, and asks for growing waits between tries once there were
// too many. The last two counts do not hold up somebody who tries from a network
// that has signed in to this e-mail address before, so that a stranger, be it
// elsewhere or behind the same proxy, cannot lock its owner out. It counts in
// memory: each replica has its own. It is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu    sync.Mutex
	tries map[tryKey]*tryState
}

// A tryKey with one of the two empty counts the other alone.
type tryKey struct{ email, network string }

type tryState struct {
	failures int
	// last is when the latest failure was, before when the one before it was.
	last, before time.Time
	// familiar is whether the network has signed in to the e-mail address before, as
	// of asked; the zero asked means not known yet.
	familiar bool
	asked    time.Time
	// waited is set once a try had to wait since the latest failure.
	waited bool
}

// throttleRule says from which failure on there is a wait, which doubles with each
// further one from one second up to longest.
type throttleRule struct {
	free    int
	longest time.Duration
}

// The rules of a pair, of a pair that has signed in before, of an e-mail address and
// of a network.
var (
	strangerRule = throttleRule{free: 5, longest: 15 * time.Minute}
	familiarRule = throttleRule{free: 5, longest: time.Minute}
	emailRule    = throttleRule{free: 20, longest: time.Minute}
	networkRule  = throttleRule{free: 50, longest: time.Minute}
)

// forgetAfter is how long a failure counts.
const forgetAfter = time.Hour

// familiarAge is how long it is believed whether a pair has signed in before.
const familiarAge = time.Minute

// maxTries bounds the memory: about 200 bytes an entry.
const maxTries = 100_000

// NewThrottle returns a Throttle that has seen nothing.
func NewThrottle(now func() time.Time) *Throttle {
	return &Throttle{now: now, tries: map[tryKey]*tryState{}}
}

// Network returns the network that tries from an address are counted for: the
// address itself, or the first 64 bits of an IPv6 address, because whoever has one
// of these has all of them.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}

// Try is a sign-in that is to be slowed.
type Try struct {
	// Email is the e-mail address, as it was given.
	Email string
	// Address is the network address that asks.
	Address string
	// Familiar reports whether Network(Address) has signed in to Email before. It is
	// called only when the try would have to wait, and at most once a minute.
	Familiar func() bool
}

func (t Try) key() tryKey { return tryKey{strings.ToLower(t.Email), Network(t.Address)} }

// Begin returns 0 when a try may go on; it then counts as failed until Undo
// is called, so that many tries at once gain nothing. Else it returns how long
// to wait, and the try does not count; first is set for the first such try of the
// e-mail address from the network since one that failed.
func (s *Throttle) Begin(t Try) (wait time.Duration, first bool) {
	key := t.key()
	wait, familiar := s.begin(key)
	if wait > 0 && familiar == nil {
		s.remember(key, t.Familiar())
		wait, _ = s.begin(key)
	}
	return wait, wait > 0 && s.wait(key)
}

// wait notes that a try had to wait, and returns whether it is the first.
func (s *Throttle) wait(key tryKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pair := s.state(key, s.now())
	first := !pair.waited
	pair.waited = true
	return first
}

// begin is Begin as far as it is known whether the pair is familiar; nil says that it
// is not known and would matter.
func (s *Throttle) begin(key tryKey) (wait time.Duration, familiar *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	pair := s.state(key, now)
	if now.Sub(pair.asked) < familiarAge {
		familiar = &pair.familiar
	}
	email, network := s.state(tryKey{email: key.email}, now), s.state(tryKey{network: key.network}, now)
	if familiar != nil && *familiar {
		wait = pair.wait(familiarRule, now)
	} else {
		wait = max(pair.wait(strangerRule, now), email.wait(emailRule, now), network.wait(networkRule, now))
	}
	if wait > 0 {
		return wait, familiar
	}
	for _, state := range []*tryState{pair, email, network} {
		state.failures++
		state.before, state.last, state.waited = state.last, now, false
	}
	return 0, familiar
}

func (t *tryState) wait(rule throttleRule, now time.Time) time.Duration {
	over := t.failures - rule.free
	if over <= 0 {
		return 0
	}
	return max(0, t.last.Add(min(rule.longest, time.Second<<min(over-1, 20))).Sub(now))
}

func (s *Throttle) remember(key tryKey, familiar bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	pair := s.state(key, now)
	pair.familiar, pair.asked = familiar, now
}

// Undo takes a try back that was right or came to no answer. The failures before it
// stay: somebody else may be guessing, from the same network or at another user of the
// e-mail address.
func (s *Throttle) Undo(t Try) {
	key := t.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range []tryKey{key, {email: key.email}, {network: key.network}} {
		if state := s.tries[k]; state != nil {
			state.failures, state.last = max(0, state.failures-1), state.before
		}
	}
}

// state returns the count of key. It holds mu.
func (s *Throttle) state(key tryKey, now time.Time) *tryState {
	t := s.tries[key]
	if t != nil && !t.forgotten(now) {
		return t
	}
	if t == nil && len(s.tries) >= maxTries {
		s.prune(now)
	}
	t = &tryState{last: now}
	s.tries[key] = t
	return t
}

func (t *tryState) forgotten(now time.Time) bool { return now.Sub(t.last) >= forgetAfter }

// prune drops what is forgotten anyway, and, when that is not enough, every
// second of the rest. It holds mu.
func (s *Throttle) prune(now time.Time) {
	drop := false
	for key, t := range s.tries {
		if t.forgotten(now) {
			delete(s.tries, key)
		}
	}
	if len(s.tries) < maxTries {
		return
	}
	for key := range s.tries {
		if drop = !drop; drop {
			delete(s.tries, key)
		}
	}
}
