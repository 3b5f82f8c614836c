package auth

import (
	"strings"
	"sync"
	"time"
)

// Slowdown makes guessing passwords slow. It counts failed sign-ins of an e-mail
// address, of a network address, and of the two together, and asks for growing
// waits between tries once there were too many. It counts in memory: each replica
// has its own. Only what fails is slowed, and an e-mail address alone for a minute
// at most, so that a stranger cannot lock its owner out. It is safe for
// concurrent use.
type Slowdown struct {
	now func() time.Time

	mu    sync.Mutex
	tries map[tryKey]*tryState
}

// A tryKey with one of the two empty counts the other alone.
type tryKey struct{ email, address string }

type tryState struct {
	failures int
	// until is when the next try is allowed, forget when the failures are.
	until, forget time.Time
}

// slowRule says from which failure on there is a wait, which doubles with each
// further one from one second up to longest.
type slowRule struct {
	free    int
	longest time.Duration
}

// rules of the pair, the e-mail address and the network address.
func rules(email, address string) map[tryKey]slowRule {
	return map[tryKey]slowRule{
		{email, address}: {free: 5, longest: 15 * time.Minute},
		{email, ""}:      {free: 20, longest: time.Minute},
		{"", address}:    {free: 50, longest: 15 * time.Minute},
	}
}

// forgetAfter is how long a failure counts.
const forgetAfter = time.Hour

// maxTries bounds the memory: about 200 bytes an entry.
const maxTries = 100_000

// NewSlowdown returns a Slowdown that has seen nothing.
func NewSlowdown(now func() time.Time) *Slowdown {
	return &Slowdown{now: now, tries: map[tryKey]*tryState{}}
}

// Begin returns 0 when a try may go on; it then counts as failed until Succeed is
// called, so that many tries at once gain nothing. Else it returns how long to
// wait, and the try does not count.
func (s *Slowdown) Begin(email, address string) (wait time.Duration) {
	email = strings.ToLower(email)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key := range rules(email, address) {
		if t := s.tries[key]; t != nil && now.Before(t.forget) {
			wait = max(wait, t.until.Sub(now))
		}
	}
	if wait > 0 {
		return wait
	}
	for key, rule := range rules(email, address) {
		s.state(key, now).fail(rule, now)
	}
	return 0
}

func (t *tryState) fail(rule slowRule, now time.Time) {
	t.failures++
	t.forget = now.Add(forgetAfter)
	if over := t.failures - rule.free; over > 0 {
		t.until = now.Add(min(rule.longest, time.Second<<min(over-1, 20)))
	}
}

// Succeed forgets the failures of the e-mail address, and takes the one try back
// from the network address, which may belong to many.
func (s *Slowdown) Succeed(email, address string) {
	email = strings.ToLower(email)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tries, tryKey{email, address})
	delete(s.tries, tryKey{email, ""})
	if t := s.tries[tryKey{"", address}]; t != nil {
		t.failures--
		t.until = time.Time{}
	}
}

// state returns the count of key. It holds mu.
func (s *Slowdown) state(key tryKey, now time.Time) *tryState {
	t := s.tries[key]
	if t != nil && now.Before(t.forget) {
		return t
	}
	if len(s.tries) >= maxTries {
		s.prune(now)
	}
	t = &tryState{}
	s.tries[key] = t
	return t
}

// prune drops what is forgotten anyway, and, when that is not enough, every
// second of the rest. It holds mu.
func (s *Slowdown) prune(now time.Time) {
	drop := false
	for key, t := range s.tries {
		if !now.Before(t.forget) {
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
