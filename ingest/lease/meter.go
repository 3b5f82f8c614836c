package lease

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// How long a "no" is good for. The database is asked again after it, because
// another replica may have given money back.
const (
	exceededFor = 200 * time.Millisecond
	downFor     = 200 * time.Millisecond
)

// meter is one cap as this replica knows it. What it does to the database goes
// one call after the other; call is the one under way.
type meter struct {
	mu     sync.Mutex
	budget budget.Budget
	share  *share
	// balance is what is leased and not spent.
	balance schema.NanoUSD
	known   known
	// want is how much to ask for: it doubles while shares are used up quickly.
	want       schema.NanoUSD
	lastRefill time.Time
	// exceededUntil and downUntil are when to ask again after a "no" and after an
	// error. openUntil is how long events without cost pass without asking while
	// there is no balance.
	exceededUntil, downUntil, openUntil time.Time
	// used is what was charged since the last sweep.
	used schema.NanoUSD
	call *call
	// started counts calls. answered and failedCall are the last that was answered with
	// figures and the last that was not. What is known is older than a change of the cap
	// if noticed, the last call that was started before it, is not older than answered.
	started, answered, failedCall, noticed int
	// unsettled are shares that are not in use any more and that the database has
	// to close. The sweep does it.
	unsettled []*share
}

// call is a call to the database that requests wait for.
type call struct {
	done   chan struct{}
	number int
	share  *share
	// earlier are the shares before, of which events may be on their way.
	earlier []*share
	// need is what the event that asks lacks, want what would be convenient.
	need, want schema.NanoUSD
}

// verdict is what take decides without asking.
type verdict int

const (
	passed   verdict = iota // the cost is charged
	exceeded                // the cap is reached
	unknown                 // the database does not answer
	ask                     // nobody knows yet: call has to be made or waited for
)

// take charges an event that arrived at arrival if it can be decided at once. With
// ask it returns the call to wait for, and whether the caller has to make it.
func (m *meter) take(now, arrival time.Time, cost schema.NanoUSD) (v verdict, s *share, c *call, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(arrival)
	if m.share.charged > maxCharged {
		m.retire()
		m.roll(arrival)
	}
	switch {
	case m.stale() || m.rest() <= 0 || m.balance < cost:
	case m.balance > 0:
		m.charge(cost)
		return passed, m.share, nil, false
	case now.Before(m.openUntil):
		return passed, nil, nil, false
	}
	switch {
	case now.Before(m.exceededUntil):
		return exceeded, nil, nil, false
	case now.Before(m.downUntil):
		return unknown, nil, nil, false
	case m.call != nil:
		return ask, nil, m.call, false
	}
	if m.share.final {
		m.retire()
		m.roll(arrival)
	}
	m.share.leased = true
	need := max(0, cost-m.balance)
	c = m.begin()
	c.need, c.want = need, m.ambition(now, need)
	return ask, nil, c, true
}

// charge takes the cost of an event from the balance, which covers it. Holds mu.
func (m *meter) charge(cost schema.NanoUSD) {
	m.balance -= cost
	m.share.charged += cost
	m.share.inFlight++
	m.used += cost
	if m.balance == 0 {
		// This event may have been the one that reached the cap.
		m.openUntil = time.Time{}
	}
}

// begin starts the call under way. Holds mu.
func (m *meter) begin() *call {
	m.started++
	m.call = &call{done: make(chan struct{}), number: m.started, share: m.share, earlier: slices.Clone(m.known.earlier)}
	return m.call
}

// roll starts a new share when the quarter hour of the present one is over. Holds mu.
func (m *meter) roll(arrival time.Time) {
	if m.share != nil && m.share.over(arrival) {
		m.retire()
	}
	if m.share == nil {
		m.share = &share{
			id: schema.NewID(arrival), bucket: arrival.Truncate(budget.Bucket), window: m.budget.Window(arrival),
			period: m.budget.Period, timezone: m.budget.Timezone, epoch: m.budget.Epoch,
		}
		m.known.enter(m.share.window)
	}
}

// retire takes the share out of use. What is left of it goes back; it is closed when nothing of it is in flight. Holds mu.
func (m *meter) retire() {
	if m.share == nil {
		return
	}
	if m.share.leased {
		m.unsettled = append(m.unsettled, m.share)
	}
	m.known.leave(m.share, m.balance)
	m.share, m.balance = nil, 0
	m.exceededUntil, m.downUntil, m.openUntil = time.Time{}, time.Time{}, time.Time{}
}

// update obeys a changed cap.
func (m *meter) update(b budget.Budget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.UpdatedAt.Equal(m.budget.UpdatedAt) && b.Epoch == m.budget.Epoch && b.OverdrawnAt.Equal(m.budget.OverdrawnAt) {
		return
	}
	if b.Epoch != m.budget.Epoch || b.Period != m.budget.Period || b.Timezone != m.budget.Timezone {
		m.retire()
		m.known = known{earlier: m.known.earlier}
	}
	if b.Epoch != m.budget.Epoch {
		m.known.earlier = nil // What is on its way counts no more.
	}
	m.budget = b
	m.noticed = m.started
	m.exceededUntil, m.openUntil = time.Time{}, time.Time{}
}

// remove gives everything back.
func (m *meter) remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retire()
}

// refund takes back the charge of an event that was surely not recorded.
func (m *meter) refund(s *share, cost schema.NanoUSD) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.charged -= cost
	s.inFlight--
	if s == m.share {
		m.balance += cost
	}
}

// settle notes that nothing more of an event is written to Kafka, and returns whether replica still holds its lease.
func (m *meter) settle(s *share, replica schema.ID) (held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.inFlight--
	return s.replica == replica
}

// taint takes a share out of use of which an event may or may not be recorded. Nothing more of the event is written.
func (m *meter) taint(s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.inFlight--
	if s == m.share {
		m.retire()
	}
}

// The bounds of want, in nano-dollars: a cent up to 1000 dollars. The database
// grants at most an eighth of what is left.
const (
	minWant schema.NanoUSD = 10_000_000
	maxWant schema.NanoUSD = 1000_000_000_000
)

// maxCharged is when a share makes way for the next. Duplicates, whose money comes
// back, may charge a share with more than any cap, and charges are an int64.
const maxCharged = schema.NanoUSD(math.MaxInt64 / 2)

// ambition adapts want to how quickly shares are used up. Holds mu.
func (m *meter) ambition(now time.Time, need schema.NanoUSD) schema.NanoUSD {
	switch since := now.Sub(m.lastRefill); {
	case since < 100*time.Millisecond:
		m.want *= 2
	case since > 400*time.Millisecond:
		m.want /= 2
	}
	m.lastRefill = now
	m.want = max(need, min(max(m.want, minWant), maxWant))
	return m.want
}

// granted takes in the answer of the database to a request for more.
func (m *meter) granted(now time.Time, c *call, g grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.share != m.share {
		// The cap changed meanwhile: all of it goes back when the share is closed.
		return
	}
	m.balance += g.granted
	m.observe(c, g.figures)
	switch {
	case g.granted == 0 && g.remaining() <= 0:
		m.exceededUntil = now.Add(exceededFor)
	default:
		m.openUntil = now.Add(exceededFor)
	}
}

// failed notes that the database did not answer. It may have done what it was
// asked all the same, so the share is used up and then closed, which settles it.
func (m *meter) failed(now time.Time, c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.share.final = true
	m.failedCall = c.number
	m.downUntil = now.Add(downFor)
}

// refused notes that the share may not be used any more: the cap was removed or
// reset, or this replica was taken for dead.
func (m *meter) refused(s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == m.share {
		m.retire()
	}
}

// idle takes out of the present share what is not being used up: all of a share
// that was not charged since the last sweep, else what exceeds twice the charges.
// It returns nil if that is too little to bother, or a call is under way. The
// caller makes the call.
func (m *meter) idle() *call {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.used
	m.used = 0
	surplus := m.balance - 2*used
	if m.call != nil || m.share == nil || m.share.final || surplus <= m.balance/2 {
		return nil
	}
	m.known.leased -= surplus
	m.balance -= surplus
	return m.begin()
}

// takeUnsettled hands the shares to close over.
func (m *meter) takeUnsettled() []*share {
	m.mu.Lock()
	defer m.mu.Unlock()
	shares := m.unsettled
	m.unsettled = nil
	return shares
}

// putBack keeps a share that could not be closed for the next sweep.
func (m *meter) putBack(s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unsettled = append(m.unsettled, s)
}

// keeps is what the database has to leave leased of a share, and whether it can be closed. Charges and refunds
// of the present share do not change it.
func (m *meter) keeps(s *share) (keep schema.NanoUSD, closes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == m.share {
		return s.charged + m.balance, false
	}
	return s.charged, s.inFlight == 0
}

// leaseBy returns the replica whose lease the share is: the given one, if it is leased for the first time.
func (m *meter) leaseBy(s *share, replica schema.ID) schema.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.replica.IsZero() {
		s.replica = replica
	}
	return s.replica
}

// finish ends the call under way and wakes those who wait for it.
func (m *meter) finish(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.call = nil
	close(c.done)
}
