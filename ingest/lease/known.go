package lease

import (
	"math"
	"slices"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// known is what this replica knows of a cap in one period. Its meter's mu guards it.
type known struct {
	window budget.Window
	// asked says that the database has answered in this period.
	asked bool
	// spent and leased are the database's last answer; what was given back since is
	// taken out of leased.
	spent, leased schema.NanoUSD
	// earlier are shares that are not in use any more and of which the database may not
	// have read every event yet.
	earlier []*share
	// shown is the most that was answered as spent.
	shown schema.NanoUSD
}

// maxEarlier bounds how many shares are remembered. There are many only when Kafka
// did not answer for long.
const maxEarlier = 100

// enter begins the period w unless it is the present one.
func (k *known) enter(w budget.Window) {
	if k.window != w {
		*k = known{window: w, earlier: k.earlier}
	}
}

// leave notes that a share is out of use and that its balance goes back.
func (k *known) leave(s *share, balance schema.NanoUSD) {
	k.leased -= balance
	if s.charged <= s.used {
		return
	}
	if len(k.earlier) == maxEarlier {
		k.earlier = slices.Delete(k.earlier, 0, 1)
	}
	k.earlier = append(k.earlier, s)
}

// ids are the shares that a call asks about.
func (c *call) ids() []schema.ID {
	ids := []schema.ID{c.share.id}
	for _, s := range c.earlier {
		ids = append(ids, s.id)
	}
	return ids
}

// observe takes in what the database answered to c. Holds mu.
func (m *meter) observe(c *call, f figures) {
	m.answered = c.number
	m.budget.Limit = f.limit
	k := &m.known
	if f.spent < k.spent {
		k.shown = 0 // Events were repriced: less is spent than was.
	}
	k.asked, k.spent, k.leased = true, f.spent, f.leased
	gone := map[*share]bool{}
	for i, s := range append([]*share{c.share}, c.earlier...) {
		switch used := f.used[i]; {
		case used != nil:
			s.used = schema.NanoUSD(*used)
		case i > 0:
			gone[s] = true // Nothing is on its way under a lease that was dropped.
		}
	}
	k.earlier = slices.DeleteFunc(k.earlier, func(s *share) bool { return gone[s] || s.charged <= s.used })
}

// stale reports whether the cap changed since the database was asked. Holds mu.
func (m *meter) stale() bool { return m.answered <= m.noticed }

// rest is what this replica may let through of the cap: what it holds, and what was
// left for all when the database was last asked, which is less than nothing when more
// was leased than there is. Holds mu.
func (m *meter) rest() schema.NanoUSD {
	return m.budget.Limit - m.known.spent - m.known.leased + m.balance
}

// spent is what the database knew as spent, and what was charged here and was not in
// that. Holds mu.
func (m *meter) spent() schema.NanoUSD {
	spent := m.known.spent
	add := func(s *share) {
		if on := s.charged - s.used; on > 0 && m.known.window.Contains(s.bucket) {
			spent += min(on, math.MaxInt64-max(0, spent))
		}
	}
	for _, s := range m.known.earlier {
		add(s)
	}
	if m.share != nil {
		add(m.share)
	}
	m.known.shown = max(m.known.shown, spent)
	return m.known.shown
}

// standing is where the cap stands. known is false if the database was never asked
// about the present period.
func (m *meter) standing() (s Standing, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = Standing{Budget: m.budget, Spent: m.spent(), Remaining: max(0, min(m.budget.Limit, m.rest()))}
	if m.budget.Period != budget.Total {
		s.ResetsAt = m.known.window.End
	}
	return s, m.known.asked
}

// look begins a call that reads where the cap stands, unless one under way has to end
// first, or one that began after the call number since has ended: then c is nil, and ok
// says whether it was answered.
func (m *meter) look(now time.Time, since int) (c *call, mine, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(now)
	switch {
	case m.answered > since:
		return nil, false, true
	case m.failedCall > since:
		return nil, false, false
	case m.call != nil:
		return m.call, false, false
	}
	return m.begin(), true, false
}

// looked takes in the answer to look.
func (m *meter) looked(c *call, f figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.share == m.share {
		m.observe(c, f)
	}
}

// lookFailed notes that look was not answered.
func (m *meter) lookFailed(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedCall = c.number
}

// calls is how many calls were started.
func (m *meter) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started
}
