package lease

import (
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/budget"
)

// share is one lease of one cap: for events that arrive in one quarter hour, so that
// whatever becomes of the cap it is known which periods they count in. Its meter's mu
// guards what changes.
type share struct {
	id schema.ID
	// bucket is the start of the quarter hour, window the period that it is of.
	bucket time.Time
	window budget.Window
	// period, timezone and epoch are the cap's as this replica knew them.
	period   budget.Period
	timezone string
	epoch    int32
	// charged is the cost of all events let through under it that are or may be
	// recorded.
	charged schema.NanoUSD
	// leased says that the database knows or may know the lease.
	leased bool
	// final says that the database was asked for more and did not answer: the
	// share is used up, then closed.
	final bool
}

// over reports whether events that arrive at t need another share.
func (s *share) over(t time.Time) bool { return !t.Before(s.bucket.Add(budget.Bucket)) }

// Standing is where a cap stands as this replica knows it: exact when the cap was
// asked for last, and never less than what is left by more than other replicas
// have given back since.
type Standing struct {
	Budget    budget.Budget
	Remaining schema.NanoUSD
	// ResetsAt is when the next period starts; zero for a cap that never does.
	ResetsAt time.Time
}

// Spent is what counts as spent or on its way.
func (s Standing) Spent() schema.NanoUSD { return s.Budget.Limit - s.Remaining }
